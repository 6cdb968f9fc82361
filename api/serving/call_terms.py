"""What the proxy asks a model server besides what its callers ask, and what it learned of the server by asking."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final, Literal

import anyio

from agents.models.openai import UNCUT
from agents.models.processed import HALF, WHOLE, scaling_of_logprobs

from ..settings import Settings
from .calls import MICRO
from .dialects import CHAT, CallDialect
from .distributions import STATED, Distribution, distribution_of
from .errors import UpstreamAnswered, UpstreamLost, UpstreamRefused
from .openai_calls import with_additions
from .upstream import AnyUpstream

_LOG = logging.getLogger(__name__)

Addition = Literal["logprobs", "token_ids", "sampling", "usage"]

_SETTING: Final[Mapping[Addition, str]] = {
    "logprobs": "FLYWHEEL_MODEL_LOGPROBS=false",
    "token_ids": "FLYWHEEL_MODEL_TOKEN_IDS=false",
    "sampling": "FLYWHEEL_MODEL_UNCUT=false",
}
_FIELDS: Final[Mapping[Addition, tuple[str, ...]]] = {
    "logprobs": ("logprobs",),
    "token_ids": ("return_token_ids",),
    "sampling": tuple(STATED),
    "usage": ("stream_options",),
}
"""Fields of a body by which each addition is asked."""

CallShape = tuple[bool, bool]
"""Whether a call is streamed, and whether it has tools: servers refuse some additions to some of them alone."""

_REFUSES: Final = {HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY}
_SCALED: Final = 1.5
"""Between 1, of raw logprobs, and 2, of processed ones (`scaling_of_logprobs`)."""
_TOP: Final = 5


@dataclass
class CallTerms:
    """What is asked of one model server, and what is known of it.

    `is_uncut` states the parameters of STATED for callers that leave them out. `is_processed` is None while the
    settings say so and the server was not asked. `draws_as_asked`: it has no defaults of its own.
    """

    logprobs: bool
    token_ids: bool
    is_uncut: bool = False
    is_processed: bool | None = False
    draws_as_asked: bool = False
    refused: set[tuple[CallShape, Addition]] = field(default_factory=set)
    _asking: anyio.Lock = field(default_factory=anyio.Lock)

    def additions(self, body: Mapping[str, Any]) -> tuple[Addition, ...]:
        """What is asked besides in such a call, and was not refused."""
        wanted: dict[Addition, bool] = {
            "logprobs": self.logprobs,
            "token_ids": self.token_ids,
            "sampling": self.is_uncut,
            "usage": True,
        }
        shape = _shape_of(body)
        return tuple(name for name, is_wanted in wanted.items() if is_wanted and (shape, name) not in self.refused)

    def upstream_body(self, dialect: CallDialect, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """The body for the model server: the caller's, with what recording needs besides."""
        if dialect.api == "anthropic":
            return body
        added = self.additions(body)
        stated = (
            {name: value for name, value in STATED.items() if body.get(name) is None} if "sampling" in added else {}
        )
        return with_additions(
            {**body, **stated},
            logprobs="logprobs" in added,
            token_ids="token_ids" in added,
            usage="usage" in added,
            is_chat=dialect is CHAT,
        )

    def may_blame(self, problem: UpstreamAnswered, sent: Mapping[str, Any], body: Mapping[str, Any]) -> bool:
        """True if a refusal may be of what the caller did not ask for."""
        return problem.facts["actual"] in _REFUSES and sent != body

    def note_refusal(
        self, url: str, problem: UpstreamAnswered, sent: Mapping[str, Any], body: Mapping[str, Any]
    ) -> None:
        """Stop asking in such calls for what a server refused: it answered the same call without.

        That is what its answer names, else all that may be blamed. Says so once, with the way out.
        """
        added = [name for name, fields in _FIELDS.items() if any(sent.get(each) != body.get(each) for each in fields)]
        answer = str(problem.facts["said"]).lower()
        named = [name for name in added if any(each in answer for each in _FIELDS[name])]
        named = named or [name for name in added if name in _SETTING] or added
        shape = _shape_of(body)
        now = {(shape, name) for name in named}
        if self.refused.issuperset(now):
            return
        self.refused.update(now)
        settings = " ".join(_SETTING[name] for name in named if name in _SETTING)
        way_out = f" Set {settings} to have it never asked, or use a server that gives them." if settings else ""
        _LOG.warning(
            "The model server at %s refused a call for what its caller did not ask (%s): %s Calls that are %s are"
            " sent without them from now on, so they are not recorded.%s",
            url,
            ", ".join(named).replace("_", " "),
            problem,
            f"{'streamed' if shape[0] else 'not streamed'} and have {'tools' if shape[1] else 'no tools'}",
            way_out,
        )

    def distribution(self, dialect: CallDialect, sent: Mapping[str, Any]) -> Distribution | None:
        """How the tokens of a call are drawn."""
        return None if self.draws_as_asked or dialect.api == "anthropic" else distribution_of(sent)

    async def has_processed(self, upstream: AnyUpstream) -> bool:
        """True if the server's logprobs are of the distribution that it draws from. Asks it once if they are to be."""
        async with self._asking:
            if self.is_processed is None:
                self.is_processed = await self._probe(upstream)
        return bool(self.is_processed)

    async def _probe(self, upstream: AnyUpstream) -> bool | None:
        """What the server shows; None if it gives no answer now, as when it is overloaded."""
        found: dict[int, dict[str, float]] = {}
        try:
            for temperature in (WHOLE, HALF):
                answer = await upstream.ask(CHAT, self._question(upstream.model, temperature), {})
                found[temperature] = _likeliest(answer)
        except (UpstreamLost, UpstreamRefused):
            return None
        except UpstreamAnswered as problem:
            if problem.facts["actual"] not in _REFUSES:
                return None
            said = f"it refuses the question ({problem})"
        else:
            scaling = scaling_of_logprobs(found.__getitem__)
            if scaling is not None and scaling >= _SCALED:
                return True
            said = (
                "it gives no two tokens to compare"
                if scaling is None
                else f"halving it stretched them by {scaling:.3g}"
            )
        _LOG.warning(
            "FLYWHEEL_MODEL_PROCESSED_LOGPROBS is true, but the logprobs of the model server at %s do not show the"
            " temperature: %s, expected by 2. They are recorded as raw."
            " Start vLLM with --logprobs-mode processed_logprobs, or set"
            " FLYWHEEL_MODEL_PROCESSED_LOGPROBS=false.",
            upstream.url,
            said,
        )
        return False

    def _question(self, model: str, temperature: int) -> dict[str, Any]:
        asked = {"role": "user", "content": "Name a colour."}
        body = {"model": model, "messages": [asked], "max_tokens": 1, "temperature": temperature / MICRO, "top_p": 1.0}
        return body | {"logprobs": True, "top_logprobs": _TOP, **(UNCUT if self.token_ids else {})}


def _shape_of(body: Mapping[str, Any]) -> CallShape:
    return bool(body.get("stream")), bool(body.get("tools") or body.get("functions"))


def _likeliest(answer: Mapping[str, Any]) -> dict[str, float]:
    """Logprobs of the likeliest first tokens of an answer; empty if it has none."""
    try:
        first = answer["choices"][0]["logprobs"]["content"][0]
        return {str(each["token"]): float(each["logprob"]) for each in first["top_logprobs"]}
    except (LookupError, TypeError, ValueError):
        return {}


def local_terms(*, has_logprobs: bool) -> CallTerms:
    """What is known of a model in this process, which draws as it is asked."""
    return CallTerms(logprobs=has_logprobs, token_ids=True, is_processed=True, draws_as_asked=True)


def configured_terms(settings: Settings) -> CallTerms:
    """What the settings say of the model server."""
    has_tokens = settings.model_tokenizer is not None and settings.model_chat_template is not None
    return CallTerms(
        settings.model_logprobs,
        settings.model_token_ids,
        is_uncut=settings.model_uncut,
        is_processed=None if settings.model_processed_logprobs and has_tokens else False,
    )
