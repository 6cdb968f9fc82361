"""Records what an evaluation costs a benchmark: each look at its evidence, and alpha that comes back unspent."""

from __future__ import annotations

from eventlog.disowned import read_in_force
from eventlog.events import AlphaReturned, EvaluationLooked, EvaluationOpened, Look, Verdict
from eventlog.store import Append, EventStore, Outcome, Rejected

BENCHMARK = "benchmark/{}"
"""Stream of a benchmark: its freezing, then the opening of every evaluation on it, its looks, and alpha returned."""


def record_look(
    store: EventStore, evaluation: str, benchmark: str, look: Look, runs: int, most_runs: int, actor: str
) -> None:
    """Record a look. A look that is in the log stands, also where grades have changed since."""
    event = EvaluationLooked(evaluation=evaluation, benchmark=benchmark, look=look, runs=runs, most_runs=most_runs)
    store.append([Append(BENCHMARK.format(benchmark), (event,), actor, key=f"look:{evaluation}:{look.number}")])


def append_verdict(store: EventStore, request: Append, opened: EvaluationOpened, verdict: Verdict) -> Outcome:
    """Append a verdict, together with the return of its alpha if it is void and nobody looked at an outcome.

    Only a group sequential test says in the log when it looks, so only its alpha can come back.
    """
    is_unseen = verdict.decision == "void" and opened.rules.test == "group_sequential" and not verdict.looks
    if not is_unseen or _was_looked_at(store, opened):
        return store.append([request])[0]
    returned = AlphaReturned(evaluation=opened.evaluation, benchmark=opened.benchmark, alpha=opened.alpha)
    stream = BENCHMARK.format(opened.benchmark)
    result = store.append_together(
        [request, Append(stream, (returned,), request.actor, key=f"return:{opened.evaluation}")]
    )
    if isinstance(result, Rejected):
        return next(refusal for refusal in result.refusals if refusal is not None)
    return result[0]


def _was_looked_at(store: EventStore, opened: EvaluationOpened) -> bool:
    events = read_in_force(store, stream=BENCHMARK.format(opened.benchmark), types=["EvaluationLooked"])
    found = (item.event for item in events)
    return any(isinstance(event, EvaluationLooked) and event.evaluation == opened.evaluation for event in found)
