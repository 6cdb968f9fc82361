"""Pays for a look at the sealed figures of an evaluation whose benchmark can still judge."""

from __future__ import annotations

from eventlog.disowned import read_in_force
from eventlog.events import SealedInspected
from eventlog.store import Append, Committed, EventStore
from projections.alpha import ALPHA, AlphaState
from projections.engine.projection import replay

from .alpha import share_of
from .ledger import BENCHMARK


def pay_for_inspection(store: EventStore, benchmark: str, evaluation: str, actor: str) -> int:
    """Append that somebody looks at an evaluation's sealed figures; return the alpha that it costs, in millionths.

    It costs nothing if the benchmark has no alpha left, or if the evaluation was looked at before. Openings share the
    benchmark's stream: unless this look was appended, the ledger is read again. A look that was disowned is paid again.
    """
    stream = BENCHMARK.format(benchmark)
    while True:
        version = sum(1 for _ in store.read(stream=stream))
        ledger = _ledger(store, stream)
        if ledger.is_exhausted or evaluation in {each.evaluation for each in ledger.inspections}:
            return 0
        event = SealedInspected(benchmark=benchmark, evaluation=evaluation, alpha=share_of(ledger))
        request = Append(stream, (event,), actor, expect=version, key=f"inspect:{evaluation}:{version}")
        if isinstance(store.append([request])[0], Committed):
            return event.alpha


def _ledger(store: EventStore, stream: str) -> AlphaState:
    states = [change.state for change in replay(ALPHA, tuple(read_in_force(store, stream=stream)))]
    return next((state for state in reversed(states) if state is not None), AlphaState())
