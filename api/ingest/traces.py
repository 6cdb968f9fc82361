"""Record spans in the log: each trace is a run from outside. A span that comes twice changes nothing."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Lock
from typing import Final

from msgspec.structs import replace
from pydantic import ValidationError

from eventlog.blobs.postgres import without_flush
from eventlog.codec import encode_append
from eventlog.errors import LogBusy
from eventlog.events import SpansKept, TraceSource
from eventlog.store import Append, Committed, Outcome, Repeated

from ..errors import OthersRun
from ..house import House
from ..run_owners import actors_of
from ..serving.errors import RunClosed
from .runs_of_traces import (
    TraceEvents,
    TraceProgress,
    add_recorded,
    events_of_spans,
    run_of_trace,
    spans_digest,
    unseen_spans,
)
from .scores import report_scores
from .spans import Span, read_raw_spans, span_fault

_IDS_REMEMBERED: Final = 500_000
"""Ids of spans that are remembered; a trace that was forgotten is read from the log."""

_TRIES: Final = 100
_FAULTS_TOLD: Final = 5


@dataclass(frozen=True, slots=True)
class TraceSender:
    """Who sends spans: the actor of their events, the name of a token, and whether it may write to runs of others."""

    actor: str
    token: str
    may_write_others: bool


@dataclass
class SpanReceipt:
    """What became of a request: how many spans were recorded now, how many refused, why, and what else was not done."""

    recorded: int = 0
    refused: int = 0
    runs: set[str] = field(default_factory=set)
    why: dict[str, None] = field(default_factory=dict)

    @property
    def reasons(self) -> str:
        """The reasons, the first few of them."""
        told = list(self.why)
        more = f" And {len(told) - _FAULTS_TOLD} more." if len(told) > _FAULTS_TOLD else ""
        return " ".join(told[:_FAULTS_TOLD]) + more

    def refuse(self, count: int, why: str) -> None:
        """Count refused spans."""
        self.refused += count
        self.why[why] = None


@dataclass(frozen=True, slots=True)
class _Making:
    trace: str
    made: TraceEvents
    append: Append

    @property
    def is_new(self) -> bool:
        """True if the run begins here. Later parts of a trace tell the conversation again that earlier ones told."""
        return not self.append.expect


@dataclass
class TraceLog:
    """Appends spans. Thread-safe; remembers where the latest traces stand.

    While the database takes the blobs of a request, its events are encoded.
    """

    house: House
    _known: OrderedDict[tuple[str, str], TraceProgress] = field(default_factory=OrderedDict)
    _ids: int = 0
    _lock: Lock = field(default_factory=Lock)
    _beside: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(thread_name_prefix="blobs"))

    def record(self, sender: TraceSender, spans: Iterable[Span], source: TraceSource) -> SpanReceipt:
        """Record spans of any traces. On return they are durable. Raises LogBusy, LogUnavailable."""
        receipt = SpanReceipt()
        waiting: dict[str, list[Span]] = {}
        for span in spans:
            fault = span_fault(span)
            if fault is None:
                waiting.setdefault(span.trace, []).append(span)
            else:
                receipt.refuse(1, f"{fault[:1].upper()}{fault[1:]}.")
        every = dict(waiting)
        for _ in range(_TRIES):
            if not waiting:
                break
            waiting = self._append(sender, waiting, source, receipt)
        else:
            raise LogBusy(actual=len(waiting), expected=0)
        self._report_scores(sender, every, receipt)
        return receipt

    def _append(
        self,
        sender: TraceSender,
        waiting: dict[str, list[Span]],
        source: TraceSource,
        receipt: SpanReceipt,
    ) -> dict[str, list[Span]]:
        """Append what is new; returns the traces that others appended to meanwhile, to be tried again."""
        made = list(self._make(sender, waiting, source, receipt))
        if not made:
            return {}
        stored = self._beside.submit(self._put_blobs, made)
        try:
            encoded = [encode_append(each.append) for each in made]
        finally:
            stored.result()
        again = {}
        for each, outcome in zip(made, self.house.store.append_encoded(encoded), strict=True):
            self._settle(sender, each.trace, each.made, outcome)
            if isinstance(outcome, Committed):
                receipt.recorded += sum(len(event.spans) for event in each.made.events if isinstance(event, SpansKept))
            if isinstance(outcome, Committed | Repeated):
                receipt.runs.add(run_of_trace(each.trace))
            else:
                again[each.trace] = waiting[each.trace]
        return again

    def _put_blobs(self, made: Sequence[_Making]) -> None:
        for are_new in (True, False):
            blobs = {blob.digest: blob for each in made if each.is_new == are_new for blob in each.made.blobs}
            without_flush(self.house.blobs, are_new=are_new).put(list(blobs.values()))

    def _make(
        self,
        sender: TraceSender,
        waiting: dict[str, list[Span]],
        source: TraceSource,
        receipt: SpanReceipt,
    ) -> Iterator[_Making]:
        """What is to be appended of each trace; the receipt says what was refused."""
        for trace, spans in waiting.items():
            progress = self._progress(sender, trace)
            fresh = unseen_spans(progress, spans)
            if _is_of_others(sender, progress):
                problem = OthersRun(run=run_of_trace(trace), or_role=", or one of the role operate or above")
                receipt.refuse(len(spans), str(problem))
            elif fresh and progress.closed is not None:
                receipt.refuse(len(fresh), str(RunClosed(run=run_of_trace(trace), actual=progress.closed)))
            elif fresh:
                try:
                    made = events_of_spans(progress, fresh, source)
                except ValidationError as problem:
                    first = problem.errors(include_url=False, include_input=False)[0]
                    receipt.refuse(len(fresh), f"Trace {trace} makes no event: {first['loc']}: {first['msg']}.")
                    continue
                yield _Making(trace, made, _append_of(sender, trace, fresh, made, progress.version))

    def _settle(self, sender: TraceSender, trace: str, made: TraceEvents, outcome: Outcome) -> None:
        """Remember where a run stands now: after what was appended, or after what was there before."""
        if isinstance(outcome, Committed):
            after = replace(made.after, version=outcome.version, opener=made.after.opener or sender.actor)
        else:
            after = self._read(trace)
        self._remember((sender.token, trace), after)

    def _progress(self, sender: TraceSender, trace: str) -> TraceProgress:
        """Where a run stands as far as is known; an unknown one is taken for new, which the append checks."""
        with self._lock:
            return self._known.get((sender.token, trace), TraceProgress())

    def _read(self, trace: str) -> TraceProgress:
        found = TraceProgress()
        for recorded in self.house.store.read(stream=f"run/{run_of_trace(trace)}"):
            found = add_recorded(found, recorded)
        return found

    def _remember(self, key: tuple[str, str], progress: TraceProgress) -> None:
        with self._lock:
            before = self._known.pop(key, None)
            self._known[key] = progress
            self._ids += len(progress.seen) + 1 - (0 if before is None else len(before.seen) + 1)
            while self._ids > _IDS_REMEMBERED:
                _, oldest = self._known.popitem(last=False)
                self._ids -= len(oldest.seen) + 1

    def _report_scores(self, sender: TraceSender, every: dict[str, list[Span]], receipt: SpanReceipt) -> None:
        """Say what evaluations said of runs that have ended; those of a run that goes on wait for its end.

        What earlier requests brought is said again, which changes nothing: the process may have died before it was.
        """
        for trace, spans in every.items():
            progress = self._progress(sender, trace)
            if not (progress.is_finished and progress.scored) or _is_of_others(sender, progress):
                continue
            kept = self.house.blobs
            earlier = [read_raw_spans(kept.get(raw).body) for raw in progress.scored] if progress.closed is None else []
            scored = {span.span: span for part in (*earlier, spans) for span in part if span.span in progress.seen}
            for why in report_scores(self.house, sender.token, run_of_trace(trace), list(scored.values())):
                receipt.why[why] = None


def _is_of_others(sender: TraceSender, progress: TraceProgress) -> bool:
    mine = not progress.opener or progress.opener in actors_of(sender.token)
    return not (mine or sender.may_write_others)


def _append_of(sender: TraceSender, trace: str, fresh: Sequence[Span], made: TraceEvents, version: int) -> Append:
    name = sender.token.replace("%", "%25").replace(":", "%3A")
    key = f"otel:{name}:{trace}:{spans_digest(fresh)}"
    return Append(f"run/{run_of_trace(trace)}", made.events, sender.actor, expect=version, key=key)
