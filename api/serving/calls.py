"""A call of a model as an outside agent makes it, and its answer, in the form that the log records. Pure."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from eventlog.blobs import Blob
from eventlog.errors import first_fault
from eventlog.events import Sampling

from .distributions import Distribution
from .errors import BadCall

if TYPE_CHECKING:
    from eventlog.blobs.conversations import Json

MICRO: Final = 1_000_000
READ_HERE: Final = 32 * 1024
"""Most bytes of a call's body that is read and recorded beside others: its JSON takes less than a millisecond."""
UNBOUNDED: Final = 1_000_000
"""Recorded as `max_tokens` where the caller gives no bound: the largest number that the event holds."""


@dataclass(frozen=True, slots=True)
class ModelCall:
    """Call of a caller. `messages` are stored as they came, pictures in them by address; `asked` is the rest.

    `size` is that of the body it came in, in bytes. `distribution` and `has_processed_logprobs` say how its tokens were
    drawn, and are set when it was answered.
    """

    model: str
    messages: tuple[Mapping[str, Json], ...]
    pictures: tuple[Blob, ...]
    sampling: Sampling
    is_streamed: bool
    is_constrained: bool
    asked: Mapping[str, Json]
    size: int = 0
    distribution: Distribution | None = None
    has_processed_logprobs: bool = False


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """Answer of the model. `samples` have the form of recorded completions, and `tool_calls`."""

    model: str
    samples: tuple[Mapping[str, Json], ...]
    input_tokens: int | None
    output_tokens: int | None
    prompt_token_ids: Sequence[int] | None = None


@dataclass(frozen=True, slots=True)
class Sampled:
    """One sample of an answer, before it is written as JSON."""

    text: str
    finish: str
    tokens: Sequence[str] | None = None
    logprobs: Sequence[float] | None = None
    token_ids: Sequence[int] | None = None
    tool_calls: Sequence[Any] = field(default=())

    def plain(self) -> Mapping[str, Json]:
        """The sample as a completion blob holds it."""
        tools: Mapping[str, Json] = {"tool_calls": list(self.tool_calls)} if self.tool_calls else {}
        return {
            "text": self.text,
            "finish": self.finish,
            "tokens": _list(self.tokens),
            "logprobs": _list(self.logprobs),
            "token_ids": _list(self.token_ids),
            **tools,
        }


def _list(values: Sequence[Any] | None) -> list[Any] | None:
    return None if values is None else list(values)


def read_object(body: bytes) -> dict[str, Any]:
    """The JSON object of a request's body. Raises BadCall."""
    try:
        found = json.loads(body)
        json.dumps(found, ensure_ascii=False, allow_nan=False).encode()  # what the log cannot hold is refused here
    except (ValueError, RecursionError) as problem:
        raise BadCall(where="body", actual=f"not plain JSON ({problem})", expected="a JSON object") from problem
    if not isinstance(found, dict):
        raise BadCall(where="body", actual=type(found).__name__, expected="a JSON object")
    return found


def text_field(body: Mapping[str, Any], name: str) -> str:
    """A field that has to be a text with something in it. Raises BadCall."""
    found = body.get(name)
    if not isinstance(found, str) or not found:
        raise BadCall(where=name, actual=repr(found), expected="a text")
    return found


def message_list(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The messages of a chat, at least one, each an object with a role. Raises BadCall."""
    found = body.get("messages")
    if not isinstance(found, list) or not found:
        raise BadCall(where="messages", actual="missing or empty", expected="a list of messages")
    for place, message in enumerate(found):
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise BadCall(where=f"messages.{place}", actual="no object with a role", expected="a message")
    return found


def sampling_of(body: Mapping[str, Any], max_tokens: object, stop: object, *, wants_logprobs: bool) -> Sampling:
    """The sampling parameters of a body, with the defaults of both APIs (temperature 1, top_p 1). Raises BadCall."""
    stops = [stop] if isinstance(stop, str) else stop or []
    if not isinstance(stops, list):
        raise BadCall(where="stop", actual=repr(stop), expected="a text or a list of texts")
    try:
        return Sampling(
            temperature_micro=_micro(body, "temperature"),
            max_tokens=UNBOUNDED if max_tokens is None else max_tokens,  # type: ignore[arg-type]  # checked by pydantic
            top_p_micro=_micro(body, "top_p"),
            seed=body.get("seed"),
            stop=tuple(stops),
            samples=body.get("n") or 1,
            wants_logprobs=wants_logprobs,
        )
    except ValidationError as problem:
        raise BadCall(
            where="sampling", actual=f"refused ({first_fault(problem)})", expected="valid values"
        ) from problem


def _micro(body: Mapping[str, Any], name: str) -> int:
    found = body.get(name)
    if found is None:
        return MICRO
    if isinstance(found, bool) or not isinstance(found, int | float) or not abs(found) <= MICRO:
        raise BadCall(where=name, actual=repr(found), expected="a number")
    return round(found * MICRO)


def picture_of(media_type: object, data: object, where: str) -> Blob:
    """A picture that came in base64. Raises BadCall."""
    try:
        return Blob(str(media_type), base64.b64decode(str(data), validate=True))
    except (binascii.Error, ValueError) as problem:
        raise BadCall(where=where, actual=f"a picture that is not base64 ({problem})", expected="base64") from problem


def with_paragraph(content: object, paragraph: str) -> str | list[Any]:
    """A prompt, as a text or as parts, with a paragraph at its end; the paragraph alone if there is none.

    Raises BadCall for another form.
    """
    if not content:
        return paragraph
    if isinstance(content, str):
        return f"{content}\n\n{paragraph}"
    if isinstance(content, list):
        return [*content, {"type": "text", "text": paragraph}]
    raise BadCall(where="system", actual=type(content).__name__, expected="a text or a list of parts")


def token_count(value: object) -> int | None:
    """A token count of an answer; None if it gives none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
