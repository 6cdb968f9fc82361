"""Forward a call to the model server and record it before its last byte is sent."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol

from sqlalchemy.exc import SQLAlchemyError

from agents.models.wire import LONGEST_SAID
from eventlog.database import database_error
from eventlog.errors import FlywheelError

from .anthropic_calls import RECORDED, without_recorded
from .call_appends import RunOpening
from .call_terms import CallTerms
from .calls import ModelAnswer, ModelCall
from .dialects import CallDialect, error_body
from .errors import UpstreamAnswered, UpstreamLost, UpstreamRefused
from .openai_calls import without_additions
from .upstream import AnyUpstream, StreamEvent

_LOG = logging.getLogger(__name__)
_TOO_MANY, _OWN_FAULT = 429, 500


class CallRecorder(Protocol):
    """Keeps calls."""

    async def record(self, opening: RunOpening, call: ModelCall, answer: ModelAnswer) -> None:
        """Keep one call. The caller gets the end of the answer after that. Raises FlywheelError."""
        ...

    def lose(self, problem: FlywheelError) -> None:
        """Note that the model server failed at a call, or broke its answer off. The caller is told by itself."""
        ...


@dataclass(frozen=True)
class Forwarding:
    """One call on its way: what the caller asked, as whom, and the model server for it.

    `message_of` says what the caller is told of an error in a stream.
    """

    capture: CallRecorder
    upstream: AnyUpstream
    dialect: CallDialect
    opening: RunOpening
    call: ModelCall
    body: Mapping[str, Any]
    headers: Mapping[str, str]
    terms: CallTerms
    message_of: Callable[[FlywheelError], str] = str

    async def answer(self) -> dict[str, Any]:
        """The whole answer for the caller, recorded. Raises UpstreamLost and its kin, LogUnavailable, RunClosed."""
        sent = self.terms.upstream_body(self.dialect, self.body)
        try:
            found = await self.upstream.ask(self.dialect, sent, self.headers)
        except UpstreamAnswered as problem:
            if not self.terms.may_blame(problem, sent, self.body):
                raise
            found = await self.upstream.ask(self.dialect, self.body, self.headers)
            self.terms.note_refusal(self.upstream.url, problem, sent, self.body)
            sent = self.body
        await self._record(found, sent)
        if self.dialect.api == "anthropic":
            return without_recorded(found)
        return without_additions(found, self.body) or found

    async def stream(self) -> AsyncIterator[bytes]:
        """The bytes of a streamed answer. What says that it is finished follows when the call is recorded.

        A failure after the first byte is told by an event of the dialect, and the stream ends without its last event.
        Raises UpstreamLost and its kin before the first byte.
        """
        async with self._open_stream() as (sent, events):
            yield b""
            parts: list[dict[str, Any]] = []
            held: list[bytes] = []
            try:
                async for event in events:
                    if self._is_last(event):
                        await self._record(self.dialect.join(parts), sent)
                        for each in (*held, event.raw):
                            yield each
                        return
                    shown = self._take(event, parts)
                    if shown is not None and (held or _finishes(event)):
                        held.append(shown)
                    elif shown is not None:
                        yield shown
                raise UpstreamLost(url=self.upstream.url, actual="its stream ended before the last event")
            except FlywheelError as problem:
                _LOG.error("%s: a streamed call was cut: %s", self.opening.run, problem)
                if is_server_failure(problem):
                    self.capture.lose(problem)
                yield _error_event(self.dialect, problem, self.message_of(problem))

    @asynccontextmanager
    async def _open_stream(self) -> AsyncIterator[tuple[Mapping[str, Any], AsyncIterator[StreamEvent]]]:
        """The body that the model server took, and the events of its answer."""
        sent = self.terms.upstream_body(self.dialect, self.body)
        async with AsyncExitStack() as stack:
            try:
                events = await stack.enter_async_context(self.upstream.stream(self.dialect, sent, self.headers))
            except UpstreamAnswered as problem:
                if not self.terms.may_blame(problem, sent, self.body):
                    raise
                again = self.upstream.stream(self.dialect, self.body, self.headers)
                events = await stack.enter_async_context(again)
                self.terms.note_refusal(self.upstream.url, problem, sent, self.body)
                sent = self.body
            yield sent, events

    def _is_last(self, event: StreamEvent) -> bool:
        if self.dialect.api == "openai":
            return event.data.strip() == self.dialect.last
        return _parse_event(event).get("type") == self.dialect.last

    def _take(self, event: StreamEvent, parts: list[dict[str, Any]]) -> bytes | None:
        """Add an event to what was answered; its bytes for the caller, None for what only recording asked for."""
        part = _parse_event(event)
        if not part:
            return event.raw
        if part.get("error") and "choices" not in part:
            said = f"an error in its stream: {str(part['error'])[:LONGEST_SAID]}"
            raise UpstreamLost(url=self.upstream.url, actual=said)
        parts.append(part)
        if RECORDED in part:
            return f"event: {part['type']}\ndata: {json.dumps(without_recorded(part), ensure_ascii=False)}\n\n".encode()
        if self.dialect.api == "anthropic" or "choices" not in part:
            return event.raw
        shown = without_additions(part, self.body)
        return None if shown is None else b"data: " + json.dumps(shown, ensure_ascii=False).encode() + b"\n\n"

    async def _record(self, found: Mapping[str, Any], sent: Mapping[str, Any]) -> None:
        try:
            answer: ModelAnswer = self.dialect.read_answer(found)
        except (KeyError, TypeError, ValueError, AttributeError) as problem:
            said = f"an answer of another shape ({type(problem).__name__} {problem})"
            raise UpstreamLost(url=self.upstream.url, actual=said) from problem
        has_logprobs = any(sample.get("logprobs") is not None for sample in answer.samples)
        call = replace(
            self.call,
            distribution=self.terms.distribution(self.dialect, sent),
            has_processed_logprobs=has_logprobs and await self.terms.has_processed(self.upstream),
        )
        try:
            await self.capture.record(self.opening, call, answer)
        except SQLAlchemyError as problem:
            raise database_error(problem) from problem
        except (ValueError, TypeError, RecursionError) as problem:
            said = f"an answer that cannot be stored ({type(problem).__name__})"
            raise UpstreamLost(url=self.upstream.url, actual=said) from problem


def is_server_failure(problem: FlywheelError) -> bool:
    """True if the model server, or the way to it, is why a call has no answer, and not what was asked."""
    if isinstance(problem, UpstreamAnswered):
        status = problem.facts["actual"]
        return isinstance(status, int) and (status == _TOO_MANY or status >= _OWN_FAULT)
    return isinstance(problem, UpstreamLost | UpstreamRefused)


async def relay(parts: Any) -> AsyncIterator[bytes]:
    """The parts, and the end of the call at the model server where the caller hangs up."""
    async with aclosing(parts) as own:
        async for part in own:
            yield part


def _finishes(event: StreamEvent) -> bool:
    """True if an event tells the caller that the answer is finished: many stop to read there."""
    part = _parse_event(event)
    return part.get("type") == "message_delta" or any(
        choice.get("finish_reason") for choice in part.get("choices") or ()
    )


def _parse_event(event: StreamEvent) -> dict[str, Any]:
    """The JSON object of an event; an empty one if it has none, as a comment or a ping."""
    try:
        found = json.loads(event.data)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _error_event(dialect: CallDialect, problem: FlywheelError, message: str) -> bytes:
    body = json.dumps(error_body(dialect.api, 502, message, type(problem).__name__)).encode()
    head = b"event: error\n" if dialect.api == "anthropic" else b""
    return head + b"data: " + body + b"\n\n"
