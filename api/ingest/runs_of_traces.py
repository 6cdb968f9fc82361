"""The events that spans become, given where their run stands. Pure.

A trace is the run `ext-otel-<trace>`. Its first spans open it, a span of a model call is a `ModelCalled`, one of a tool
a `StepTaken`, the end of the root span ends the run, and one `SpansKept` names all of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
from msgspec.structs import replace

from eventlog.blobs import Blob
from eventlog.events import (
    AnyEvent,
    ModelCalled,
    RewardGraded,
    RunFinished,
    RunMissing,
    RunStatus,
    SpansKept,
    StepTaken,
    TraceSource,
)
from eventlog.store import Recorded

from ..serving.outside_facts import JSON_TYPE, NOTHING, call_event, outside_start
from ..serving.reported_rewards import known_total, outside_end
from .mapping import MAPPING, call_of, conversation_of, span_role, span_scores, tool_use, traced_task
from .spans import ERROR, Span, raw_spans

EXECUTOR: Final = "otel"
SWEEP: Final = "ext-otel"
_TEXT: Final = "text/plain"


class TraceProgress(msgspec.Struct, frozen=True):
    """Where the run of a trace stands. `tokens` are those read and written by its calls, None if one is unknown.

    `scored` are the blobs of spans with evaluation results, `closed` is the event after which nothing is added.
    """

    version: int = 0
    opener: str = ""
    calls: int = 0
    steps: int = 0
    tokens: tuple[int | None, int | None] = (0, 0)
    seen: frozenset[str] = frozenset()
    scored: tuple[str, ...] = ()
    is_finished: bool = False
    closed: str | None = None


@dataclass(frozen=True, slots=True)
class TraceEvents:
    """Events to append to a run, the blobs that they name, and where the run stands after them."""

    events: tuple[AnyEvent, ...]
    blobs: tuple[Blob, ...]
    after: TraceProgress


def run_of_trace(trace: str) -> str:
    """The name of a trace's run."""
    return f"ext-otel-{trace}"


def spans_digest(spans: Sequence[Span]) -> str:
    """A digest of the ids of spans of one trace, in whatever order they came."""
    return hashlib.sha256(",".join(sorted(span.span for span in spans)).encode()).hexdigest()


def add_recorded(progress: TraceProgress, recorded: Recorded) -> TraceProgress:
    """Where a run stands after one more event of it."""
    found = add_event(progress, recorded.event)
    return replace(found, version=recorded.version, opener=progress.opener or recorded.actor)


def add_event(progress: TraceProgress, event: AnyEvent) -> TraceProgress:
    """Where a run stands after an event, but for its version."""
    match event:
        case ModelCalled():
            read, written = progress.tokens
            tokens = known_total((read, event.input_tokens)), known_total((written, event.output_tokens))
            return replace(progress, calls=progress.calls + 1, tokens=tokens)
        case StepTaken():
            return replace(progress, steps=progress.steps + 1)
        case SpansKept():
            scored = (*progress.scored, event.raw) if event.scores else progress.scored
            return replace(progress, seen=progress.seen | set(event.spans), scored=scored)
        case RunFinished():
            return replace(progress, is_finished=True)
        case RunMissing() | RewardGraded():
            return replace(progress, closed=event.type)
        case _:
            return progress


def unseen_spans(progress: TraceProgress, spans: Sequence[Span]) -> tuple[Span, ...]:
    """The spans that are not in the log yet, each once, in order of their beginning."""
    fresh = {span.span: span for span in reversed(spans) if span.span not in progress.seen}
    return tuple(sorted(fresh.values(), key=lambda span: (span.start, span.span)))


def events_of_spans(progress: TraceProgress, spans: Sequence[Span], source: TraceSource) -> TraceEvents:
    """The events and blobs of spans of one trace that were not seen before."""
    run = run_of_trace(spans[0].trace)
    kept = Blob(JSON_TYPE, raw_spans(spans))
    events: list[AnyEvent] = []
    blobs: dict[str, Blob] = {NOTHING.digest: NOTHING, kept.digest: kept}
    after = progress
    if not progress.version:
        events.append(_start_of_run(run, spans))
    for span in spans:
        made = _event_of_span(run, after, span)
        if made is not None:
            event, named = made
            events.append(event)
            blobs.update((blob.digest, blob) for blob in named)
            after = add_event(after, event)
    root = next((span for span in spans if span.is_root), None)
    if root is not None and not progress.is_finished:
        wall = max(0, root.end - root.start) // 1000
        status: RunStatus = "halted" if root.status == ERROR else "completed"
        events.append(outside_end(run, status, after.tokens, after.steps, wall))
    events.append(
        SpansKept(
            run=run,
            spans=tuple(span.span for span in spans),
            raw=kept.digest,
            mapping=MAPPING,
            source=source,
            scores=sum(len(span_scores(span)) for span in spans),
        )
    )
    for event in events[-2:]:
        after = add_event(after, event) if isinstance(event, RunFinished | SpansKept) else after
    return TraceEvents(tuple(events), tuple(blobs.values()), after)


def _start_of_run(run: str, spans: Sequence[Span]) -> AnyEvent:
    talk = next((found for span in spans if (found := conversation_of(span))), "")
    named = (traced_task(span) for span in spans)
    task = next((found for found in named if found != "trace"), "trace")
    return outside_start(run, f"ext-otel-{talk}" if talk else run, task, SWEEP, EXECUTOR)


def _event_of_span(run: str, progress: TraceProgress, span: Span) -> tuple[AnyEvent, tuple[Blob, ...]] | None:
    match span_role(span):
        case "call":
            return call_event(run, *call_of(span), {"mapping": MAPPING}, progress.calls)
        case "tool":
            return _step(run, progress.steps, span)
        case _:
            return None


def _step(run: str, index: int, span: Span) -> tuple[StepTaken, tuple[Blob, ...]]:
    used = tool_use(span)
    argument, result = (None if text is None else Blob(_TEXT, text.encode()) for text in (used.argument, used.result))
    event = StepTaken(
        run=run,
        index=index,
        action=used.action,
        argument=None if argument is None else argument.digest,
        intent=used.intent,
        outcome="server_error" if used.has_failed else "ok",
        http_status=None,
        observation=None if result is None else result.digest,
    )
    return event, tuple(blob for blob in (argument, result) if blob is not None)
