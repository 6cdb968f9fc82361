"""The three ways to call a model through the proxy, as a table: how to read, forward, join and refuse. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from . import anthropic_calls, openai_calls
from .calls import ModelAnswer, ModelCall

Api = Literal["openai", "anthropic"]


@dataclass(frozen=True, slots=True)
class CallDialect:
    """One endpoint: its path at the model server, and the functions for its bodies.

    `last` is the data (OpenAI) or the event (Anthropic) that ends a stream. `advise` adds a paragraph to what the model
    is told at first.
    """

    api: Api
    path: str
    last: str
    read_call: Callable[[Mapping[str, Any]], ModelCall]
    read_answer: Callable[[Mapping[str, Any]], ModelAnswer]
    join: Callable[[Sequence[Mapping[str, Any]]], dict[str, Any]]
    advise: Callable[[Mapping[str, Any], str], dict[str, Any]]


CHAT: Final = CallDialect(
    "openai",
    "chat/completions",
    openai_calls.DONE,
    openai_calls.read_chat,
    openai_calls.read_chat_answer,
    openai_calls.join_chat,
    openai_calls.advise_chat,
)
COMPLETIONS: Final = CallDialect(
    "openai",
    "completions",
    openai_calls.DONE,
    openai_calls.read_completion,
    openai_calls.read_completion_answer,
    openai_calls.join_completion,
    openai_calls.advise_completion,
)
MESSAGES: Final = CallDialect(
    "anthropic",
    "messages",
    anthropic_calls.LAST,
    anthropic_calls.read_messages,
    anthropic_calls.read_message_answer,
    anthropic_calls.join_messages,
    anthropic_calls.advise_messages,
)

_KINDS: Final[Mapping[int, tuple[str, str]]] = {
    400: ("invalid_request_error", "invalid_request_error"),
    401: ("authentication_error", "authentication_error"),
    403: ("permission_error", "permission_error"),
    404: ("invalid_request_error", "not_found_error"),
    409: ("invalid_request_error", "invalid_request_error"),
    413: ("invalid_request_error", "request_too_large"),
    422: ("invalid_request_error", "invalid_request_error"),
    429: ("rate_limit_error", "rate_limit_error"),
    529: ("server_error", "overloaded_error"),
}
"""The type of an error by status: that of OpenAI's API, that of Anthropic's."""


def error_body(api: Api, status: int, message: str, code: str) -> dict[str, Any]:
    """An error as the clients of an API read it. `code` is the name of our error."""
    openai, anthropic = _KINDS.get(status, ("server_error", "api_error"))
    if api == "anthropic":
        return {"type": "error", "error": {"type": anthropic, "message": message}}
    return {"error": {"message": message, "type": openai, "param": None, "code": code}}
