"""Changes the champion, by events appended to the stream `champion` at an expected version. Nothing else may."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from eventlog.disowned import read_in_force
from eventlog.events import (
    AnyEvent,
    Artifact,
    BenchmarkFrozen,
    ChampionPointed,
    Decision,
    EvaluationOpened,
    MemoryQuarantined,
    Rules,
    RunsWithdrawn,
    TaskPlan,
    Verdict,
    VerdictReached,
)
from eventlog.store import Append, Committed, Conflict, EventStore, KeyReused, Position, Recorded, Rejected, Repeated
from projections.alpha import ALPHA, AlphaState
from projections.champions import CHAMPION, CHAMPIONS
from projections.engine.projection import replay
from projections.engine.views import Views
from projections.memories import candidacies, piece_kind
from projections.taint import WITHDRAWALS

from .alpha import next_alpha
from .errors import (
    AlreadyOpened,
    AlreadySettled,
    BenchmarkExists,
    ChampionMoved,
    NotFrozen,
    NotOpened,
    OtherChampion,
    OtherEvaluation,
    PieceQuarantined,
    PieceUnknown,
    ReasonMissing,
)
from .ledger import BENCHMARK, append_verdict
from .return_plan import plan_return

STREAM = CHAMPION
"""Stream of the events that decide who is champion; its key in the fold has the same name."""


@dataclass(frozen=True, slots=True)
class Settled:
    """A recorded decision and the log positions of its events."""

    decision: Decision
    first: Position
    last: Position


@dataclass(frozen=True, slots=True)
class Pointed:
    """The champion from `position` on, and the memory pieces that were quarantined with the change."""

    artifact: Artifact
    position: Position
    quarantined: tuple[str, ...]


def freeze_into(store: EventStore, benchmark: BenchmarkFrozen, actor: str) -> Position:
    """Record a frozen benchmark. Idempotent. Raises BenchmarkExists if the name is taken."""
    stream = BENCHMARK.format(benchmark.benchmark)
    outcome = store.append([Append(stream, (benchmark,), actor, expect=0, key=f"freeze:{benchmark.benchmark}")])[0]
    if isinstance(outcome, Committed | Repeated):
        return outcome.first
    raise BenchmarkExists(actual=benchmark.benchmark)


def open_evaluation(
    store: EventStore,
    evaluation: str,
    benchmark: BenchmarkFrozen,
    champion: Artifact,
    challenger: Artifact,
    rules: Rules,
    actor: str,
    *,
    executor: str | None = None,
    suite: tuple[TaskPlan, ...] = (),
    suite_version: str | None = None,
    model: str | None = None,
) -> Position:
    """Record that two artifacts will play a benchmark under these rules, and spend the next share of its alpha.

    Idempotent. `executor` plays both arms (None: plans over HTTP) by its `model`, from the plans of the `suite`; steps
    are checked by the operations of its `suite_version` (None: of the site's suite by now). Openings of one benchmark
    share its stream: after a version conflict the ledger is read again. Raises NotFrozen, BenchmarkExhausted, and
    AlreadyOpened if an evaluation with this name has other arguments.
    """
    unspent = EvaluationOpened(
        evaluation=evaluation,
        benchmark=benchmark.benchmark,
        benchmark_digest=benchmark.digest,
        champion=champion,
        challenger=challenger,
        rules=rules,
        challenge=0,
        alpha=0,
        suite=suite,
        executor=executor,
        suite_version=suite_version,
        model=model,
    )
    position: Position | None = None
    while position is None:
        position = _open(store, benchmark, unspent, actor)
    return position


def _open(store: EventStore, benchmark: BenchmarkFrozen, unspent: EvaluationOpened, actor: str) -> Position | None:
    """Open with the next alpha of the ledger; None if another evaluation was opened concurrently."""
    stream, evaluation = BENCHMARK.format(benchmark.benchmark), unspent.evaluation
    version = sum(1 for _ in store.read(stream=stream))
    known = tuple(read_in_force(store, stream=stream))
    ledger = _ledger(known, benchmark)
    before = next((item for item in known if _opens(item, evaluation)), None)
    if before is not None:
        return _position_of_repeat(before, unspent)
    spending = next_alpha(ledger)
    opened = unspent.model_copy(update={"challenge": spending.challenge, "alpha": spending.alpha})
    request = Append(stream, (opened,), actor, expect=version, key=f"open:{evaluation}")
    outcome = store.append([request])[0]
    if isinstance(outcome, KeyReused):
        raise AlreadyOpened(evaluation=evaluation)
    return None if isinstance(outcome, Conflict) else outcome.first


def _ledger(known: Sequence[Recorded], benchmark: BenchmarkFrozen) -> AlphaState:
    """Alpha spent on a benchmark, computed from its stream. Raises NotFrozen."""
    first = known[0].event if known else None
    if not isinstance(first, BenchmarkFrozen) or first.digest != benchmark.digest:
        raise NotFrozen(actual=benchmark.benchmark, expected=benchmark.digest)
    return [change.state for change in replay(ALPHA, known) if change.state is not None][-1]


def _opens(item: Recorded, evaluation: str) -> bool:
    return isinstance(item.event, EvaluationOpened) and item.event.evaluation == evaluation


def _position_of_repeat(before: Recorded, unspent: EvaluationOpened) -> Position:
    """Position where the same evaluation was opened before, ignoring its alpha. Raises AlreadyOpened."""
    opened = before.event
    if isinstance(opened, EvaluationOpened) and opened.model_copy(update={"challenge": 0, "alpha": 0}) == unspent:
        return before.position
    raise AlreadyOpened(evaluation=unspent.evaluation)


def settle_evaluation(
    store: EventStore, evaluation: str, verdict: Verdict, expect: int, actor: str, *, points: bool = True
) -> Settled:
    """Record a verdict and, if it promotes and `points`, the new champion, or alpha that was not spent, atomically.

    Without `points` the pointer waits for verdicts of other sites (see gate/jurisdiction.py).
    `expect` is the version of the champion's stream that was judged. Idempotent.
    Raises ChampionMoved, OtherChampion, NotOpened, OtherEvaluation, AlreadySettled.
    """
    opened = _refuse_other_evaluation(store, evaluation, verdict)
    events: tuple[AnyEvent, ...] = (VerdictReached(evaluation=evaluation, verdict=verdict),)
    if verdict.decision == "promote" and points:
        _refuse_other_champion(store, evaluation, verdict, expect)
        reason = f"mean score better than that of {verdict.champion.artifact}"
        artifact = verdict.challenger.artifact
        events += (ChampionPointed(artifact=artifact, by="gate", reason=reason, evaluation=evaluation),)
    request = Append(STREAM, events, actor, expect=expect, key=f"settle:{evaluation}")
    outcome = append_verdict(store, request, opened, verdict)
    if isinstance(outcome, Conflict):
        raise _moved_error(outcome)
    if isinstance(outcome, KeyReused):
        raise AlreadySettled(evaluation=evaluation, actual=outcome.first)
    return Settled(verdict.decision, outcome.first, outcome.last)


def point(store: EventStore, views: Views, artifact: Artifact, reason: str, actor: str) -> Pointed:
    """Make an artifact champion by hand, at the position of `views`. Raises ReasonMissing, ChampionMoved."""
    _refuse_empty(reason)
    event = ChampionPointed(artifact=artifact, by="operator", reason=reason, evaluation=None)
    return _move(store, views, event, (), actor)


def back(
    store: EventStore, views: Views, reason: str, actor: str, *, withdraw: Sequence[RunsWithdrawn] = ()
) -> Pointed:
    """Restore the previous champion, at the position of `views`, and quarantine memory pieces added since.

    `withdraw` is appended together with the move, so that either all of it is recorded or none. Raises ReasonMissing,
    NothingBefore, ChampionMoved.
    """
    _refuse_empty(reason)
    plan = plan_return(views)
    event = ChampionPointed(artifact=plan.restored, by="rollback", reason=reason, evaluation=None)
    return _move(store, views, event, plan.quarantined, actor, withdraw)


def quarantine_piece(store: EventStore, views: Views, piece: str, reason: str, actor: str) -> Position:
    """Quarantine one piece of memory by hand, at the position of `views`: no later artifact has it until it is cleared.

    The champion does not move. Raises ReasonMissing, PieceUnknown, PieceQuarantined, ChampionMoved.
    """
    _refuse_empty(reason)
    state = candidacies(views).get(piece)
    if state is None:
        raise PieceUnknown(actual=piece)
    if state.status == "quarantined":
        raise PieceQuarantined(actual=piece)
    champion = views.get(CHAMPIONS, CHAMPION)
    upto = 0 if champion is None else champion.pointed_artifact().memory.upto
    event = MemoryQuarantined(piece=piece, kind=piece_kind(state), restored=upto, reason=reason)
    (outcome,) = store.append([Append(STREAM, (event,), actor, expect=_seen_version(store, views))])
    if isinstance(outcome, Conflict):
        raise _moved_error(outcome)
    if isinstance(outcome, KeyReused):
        raise TypeError(f"a fresh key was used before: {outcome!r}; expected none")
    return outcome.first


def _move(
    store: EventStore,
    views: Views,
    event: ChampionPointed,
    pieces: tuple[str, ...],
    actor: str,
    withdraw: Sequence[RunsWithdrawn] = (),
) -> Pointed:
    """Append at the stream version that the views have seen, so that a later champion change is a conflict."""
    known, restored = candidacies(views) if pieces else {}, event.artifact.memory.upto
    quarantines = tuple(
        MemoryQuarantined(piece=piece, kind=piece_kind(known[piece]), restored=restored, reason=event.reason)
        for piece in pieces
    )
    request = Append(STREAM, (event, *quarantines), actor, expect=_seen_version(store, views))
    further = [Append(WITHDRAWALS, tuple(withdraw), actor)] if withdraw else []
    result = store.append_together([request, *further])
    if isinstance(result, Rejected):
        raise _moved_error(next(each for each in result.refusals if isinstance(each, Conflict)))
    return Pointed(event.artifact, result[0].first, pieces)


def _seen_version(store: EventStore, views: Views) -> int:
    """The version of the champion's stream at the position of the views; 0 if nothing was in it."""
    return max((recorded.version for recorded in store.read(stream=STREAM, upto=views.upto)), default=0)


def _moved_error(conflict: Conflict) -> ChampionMoved:
    return ChampionMoved(expected=conflict.expected, actual=conflict.actual)


def _refuse_empty(reason: str) -> None:
    if not reason.strip():
        raise ReasonMissing


def _refuse_other_evaluation(store: EventStore, evaluation: str, verdict: Verdict) -> EvaluationOpened:
    opened = find_opening(store, evaluation)
    for what, actual, expected in (
        ("benchmark", verdict.benchmark, opened.benchmark_digest),
        ("champion", verdict.champion.artifact, opened.champion),
        ("challenger", verdict.challenger.artifact, opened.challenger),
        ("set of rules", verdict.rules, opened.rules),
        ("alpha", verdict.alpha, opened.alpha),
    ):
        if actual != expected:
            raise OtherEvaluation(evaluation=evaluation, what=what, actual=str(actual), expected=str(expected))
    return opened


def find_opening(store: EventStore, evaluation: str) -> EvaluationOpened:
    """Find the opening event of an evaluation in any stream. Raises NotOpened."""
    for recorded in read_in_force(store, types=["EvaluationOpened"]):
        if isinstance(recorded.event, EvaluationOpened) and recorded.event.evaluation == evaluation:
            return recorded.event
    raise NotOpened(evaluation=evaluation)


def _refuse_other_champion(store: EventStore, evaluation: str, verdict: Verdict, expect: int) -> None:
    """Raise unless the champion at version `expect` is the one that was judged, or there was none."""
    events = tuple(read_in_force(store, stream=STREAM))
    if any(isinstance(item.event, VerdictReached) and item.event.evaluation == evaluation for item in events):
        return  # settled before: the idempotency key answers
    champion = next(_pointings(reversed([item for item in events if item.version <= expect])), None)
    judged = verdict.champion.artifact
    if champion is not None and champion != judged:
        raise OtherChampion(evaluation=evaluation, actual=str(judged), version=expect, expected=str(champion))


def _pointings(events: Iterator[Recorded]) -> Iterator[Artifact]:
    return (item.event.artifact for item in events if isinstance(item.event, ChampionPointed))
