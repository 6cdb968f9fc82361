from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import pytest

from eventlog.events import (
    Anchor,
    AnyEvent,
    Artifact,
    ChampionPointed,
    MemoryQuarantined,
    ReplaceUrl,
    RewriteLost,
    RewriteProposed,
    RewriteWon,
    Rules,
    SeedsRule,
    Verdict,
    VerdictReached,
)
from eventlog.memory import MemoryStore
from eventlog.store import Append, EventStore, Outcome, Position
from gate.alpha import Alpha
from gate.errors import (
    AlreadyOpened,
    AlreadySettled,
    BenchmarkExhausted,
    BenchmarkExists,
    ChampionMoved,
    NotFrozen,
    NothingBefore,
    NotOpened,
    OtherChampion,
    OtherEvaluation,
    ReasonMissing,
)
from gate.judge import judge
from gate.promote import Pointed, back, freeze_into, open_evaluation, point, settle_evaluation
from projections.alpha import ALPHA, AlphaState
from projections.champions import CHAMPION, CHAMPIONS
from projections.engine.views import ReplayedViews
from projections.rewrites import REWRITES
from projections.verdicts import VERDICTS
from tests.unit.test_gate_samples import EVALUATION, HALF, ZERO, an_arm, artifact, benchmark

FROZEN = benchmark(sealed=8)
OLD, NEW = artifact(0), artifact(9)
RULE = SeedsRule(wins_to_promote=1, losses_to_demote=1)


def a_store(*artifacts: Artifact) -> MemoryStore:
    """A log whose champion was pointed at each of the artifacts in turn."""
    store = MemoryStore(lambda: datetime(2026, 11, 20, tzinfo=UTC))
    for each in artifacts:
        add(store, "champion", ChampionPointed(artifact=each, by="genesis", reason="start", evaluation=None))
    return store


def add(store: EventStore, stream: str, *events: AnyEvent) -> Position:
    store.append([Append(stream, events, "test")])
    return store.head()


def views(store: EventStore) -> ReplayedViews:
    return ReplayedViews(store, store.head())


def champion(store: EventStore) -> Artifact:
    state = views(store).get(CHAMPIONS, CHAMPION)
    assert state is not None
    return state.pointed_artifact()


def champion_events(store: EventStore) -> list[AnyEvent]:
    return [recorded.event for recorded in store.read(stream="champion")]


def a_verdict(decision: str = "promote", old: Artifact = OLD, new: Artifact = NEW) -> Verdict:
    scores: dict[str, list[int | None]] = {"promote": [1_000_000] * 8, "hold": [0] * 8, "void": [None] * 8}
    first = an_arm(FROZEN, "champion", [HALF] * 8, pinned=old)
    second = an_arm(FROZEN, "challenger", scores[decision], pinned=new)
    verdict = judge(first, second, FROZEN, Rules.seeds(), Alpha(1, 5_000, 5_000))
    assert verdict.decision == decision
    return verdict


def opened(store: EventStore, evaluation: str = EVALUATION, old: Artifact = OLD, new: Artifact = NEW) -> Position:
    """Freeze the benchmark, where that was not done, and open an evaluation on it."""
    freeze_into(store, FROZEN, "gate")
    return open_evaluation(store, evaluation, FROZEN, old, new, Rules.seeds(), "gate")


def propose(store: EventStore, rewrite: str) -> Position:
    anchor = Anchor(type="navigate", intent="open", content=ZERO)
    event = RewriteProposed(
        rewrite=rewrite,
        anchor=anchor,
        change=ReplaceUrl(url="/new"),
        rule=RULE,
        run="proposer",
        source="page_links",
        confidence=HALF,
    )
    return add(store, f"rewrite/{rewrite}", event)


def win(store: EventStore, rewrite: str) -> Position:
    return add(store, f"rewrite/{rewrite}", RewriteWon(rewrite=rewrite, run="r", control_runs=(), control_successes=0))


def lose(store: EventStore, rewrite: str) -> Position:
    return add(store, f"rewrite/{rewrite}", RewriteLost(rewrite=rewrite, run="r", control_runs=(), control_successes=0))


def test_an_evaluation_is_opened_once() -> None:
    store = a_store(OLD)
    assert opened(store) == opened(store) == 3
    state = views(store).get(VERDICTS, EVALUATION)
    assert state is not None
    assert (state.artifacts(), state.benchmark_digest) == ((OLD, NEW), FROZEN.digest)
    assert next(store.read(after=Position(2))).stream == "benchmark/bench"
    with pytest.raises(AlreadyOpened, match="ev1"):
        opened(store, new=artifact(12))
    assert (ledger(store).challenges, ledger(store).spent_total) == (1, 5_000)


def ledger(store: EventStore) -> AlphaState:
    state = views(store).get(ALPHA, FROZEN.benchmark)
    assert state is not None
    return state


def test_every_opening_spends_the_next_share_until_the_benchmark_is_exhausted() -> None:
    store = a_store(OLD)
    for number in range(10):
        opened(store, f"ev{number}")
    assert [(each.challenge, each.alpha) for each in ledger(store).spendings] == [(n, 5_000) for n in range(1, 11)]
    assert ledger(store).spent_total == FROZEN.alpha
    head = store.head()
    with pytest.raises(BenchmarkExhausted, match="has judged 10 challengers"):
        opened(store, "ev10")
    assert opened(store, "ev9") == head == store.head()


def test_a_benchmark_that_is_not_in_the_log_is_not_played() -> None:
    store = a_store(OLD)
    with pytest.raises(NotFrozen, match="No benchmark bench "):
        open_evaluation(store, EVALUATION, FROZEN, OLD, NEW, Rules.seeds(), "gate")
    freeze_into(store, FROZEN, "gate")
    with pytest.raises(BenchmarkExists, match="called bench exists"):
        freeze_into(store, benchmark(sealed=9), "gate")
    with pytest.raises(NotFrozen):
        open_evaluation(store, EVALUATION, benchmark(sealed=9), OLD, NEW, Rules.seeds(), "gate")
    assert store.head() == 2


def test_who_opens_at_the_same_time_takes_the_next_share_and_a_name_goes_once() -> None:
    """The second reads the stream before the first has appended to it."""
    store = a_store(OLD)
    freeze_into(store, FROZEN, "gate")
    racing = Overtaken(store, lambda: opened(store, "ev1"))
    open_evaluation(racing, "ev2", FROZEN, OLD, NEW, Rules.seeds(), "gate")
    assert [(each.evaluation, each.challenge) for each in ledger(store).spendings] == [("ev1", 1), ("ev2", 2)]
    racing = Overtaken(store, lambda: opened(store, "ev3"))
    with pytest.raises(AlreadyOpened, match="ev3"):
        open_evaluation(racing, "ev3", FROZEN, OLD, artifact(12), Rules.seeds(), "gate")
    assert ledger(store).challenges == 3


class Overtaken(MemoryStore):
    """A store in whose log somebody appends before the first append does."""

    def __init__(self, store: MemoryStore, meanwhile: Callable[[], object]) -> None:
        self.__dict__ = store.__dict__
        self.meanwhile = [meanwhile]

    def append(self, requests: Sequence[Append]) -> Sequence[Outcome]:
        if self.meanwhile:
            self.meanwhile.pop()()
        return super().append(requests)


def test_a_promotion_appends_verdict_and_champion_together() -> None:
    store = a_store(OLD)
    opened(store)
    settled = settle_evaluation(store, EVALUATION, a_verdict(), 1, "gate")
    assert (settled.decision, settled.first, settled.last) == ("promote", 4, 5)
    reached, pointed = champion_events(store)[1:]
    assert reached == VerdictReached(evaluation=EVALUATION, verdict=a_verdict())
    assert isinstance(pointed, ChampionPointed)
    assert (pointed.artifact, pointed.by, pointed.evaluation) == (NEW, "gate", EVALUATION)
    assert re.fullmatch(r"mean score better than that of base@\d+", pointed.reason)
    assert champion(store) == NEW


@pytest.mark.parametrize("decision", ["hold", "void"])
def test_anything_else_leaves_the_champion(decision: str) -> None:
    store = a_store(OLD)
    opened(store)
    settled = settle_evaluation(store, EVALUATION, a_verdict(decision), 1, "gate")
    assert (settled.decision, settled.first, settled.last) == (decision, 4, 4)
    assert champion(store) == OLD
    state = views(store).get(VERDICTS, EVALUATION)
    assert state is not None
    assert state.decision == decision


def test_of_two_racing_settlements_the_second_finds_the_champion_moved() -> None:
    store = a_store(OLD)
    opened(store, "ev1")
    opened(store, "ev2", new=artifact(12))
    settle_evaluation(store, "ev1", a_verdict(), 1, "gate")
    with pytest.raises(ChampionMoved) as moved:
        settle_evaluation(store, "ev2", a_verdict(new=artifact(12)), 1, "gate")
    assert moved.value.facts == {"expected": 1, "actual": 3}
    assert champion(store) == NEW
    with pytest.raises(OtherChampion, match="judged against base@0, but at version 3 the champion is base@9"):
        settle_evaluation(store, "ev2", a_verdict(new=artifact(12)), 3, "gate")


def test_a_promotion_after_a_neighbours_hold_is_settled_at_the_new_version() -> None:
    store = a_store(OLD)
    opened(store, "ev1")
    opened(store, "ev2", new=artifact(12))
    settle_evaluation(store, "ev1", a_verdict("hold"), 1, "gate")
    with pytest.raises(ChampionMoved):
        settle_evaluation(store, "ev2", a_verdict(new=artifact(12)), 1, "gate")
    settle_evaluation(store, "ev2", a_verdict(new=artifact(12)), 2, "gate")
    assert champion(store) == artifact(12)


@pytest.mark.parametrize("expect", [1, 3])
def test_settling_again_changes_nothing(expect: int) -> None:
    store = a_store(OLD)
    opened(store)
    first = settle_evaluation(store, EVALUATION, a_verdict(), 1, "gate")
    assert settle_evaluation(store, EVALUATION, a_verdict(), expect, "gate") == first
    assert store.head() == 5
    with pytest.raises(AlreadySettled, match="position 4"):
        settle_evaluation(store, EVALUATION, a_verdict("hold"), 3, "gate")


def test_a_verdict_belongs_to_an_opened_evaluation() -> None:
    store = a_store(OLD)
    with pytest.raises(NotOpened, match="ev1 was never opened"):
        settle_evaluation(store, EVALUATION, a_verdict(), 1, "gate")
    opened(store, new=artifact(12))
    with pytest.raises(OtherEvaluation, match="its challenger is base@9, expected base@12"):
        settle_evaluation(store, EVALUATION, a_verdict(), 1, "gate")
    assert store.head() == 3


def test_the_first_champion_may_come_from_the_gate() -> None:
    store = a_store()
    opened(store)
    settle_evaluation(store, EVALUATION, a_verdict(), 0, "gate")
    assert champion(store) == NEW


def test_an_operator_points() -> None:
    store = a_store(OLD)
    moved = point(store, views(store), NEW, "a trial", "ann")
    assert moved == Pointed(NEW, Position(2), ())
    state = views(store).get(CHAMPIONS, CHAMPION)
    assert state is not None
    assert (state.by, state.reason, state.actor, state.stack) == ("operator", "a trial", "ann", (1, 2))


@pytest.mark.parametrize("reason", ["", "  \n"])
def test_a_move_by_hand_needs_a_reason(reason: str) -> None:
    store = a_store(OLD, NEW)
    with pytest.raises(ReasonMissing):
        point(store, views(store), NEW, reason, "ann")
    with pytest.raises(ReasonMissing):
        back(store, views(store), reason, "ann")


@pytest.mark.parametrize("artifacts", [[], [OLD]])
def test_there_is_nothing_before_the_first(artifacts: list[Artifact]) -> None:
    store = a_store(*artifacts)
    with pytest.raises(NothingBefore, match=f" {len(artifacts)} times"):
        back(store, views(store), "why", "ann")


def test_back_walks_down_and_a_new_champion_is_put_on_what_was_restored() -> None:
    first, second, third = artifact(0), artifact(1), artifact(2)
    store = a_store(first, second, third)
    assert back(store, views(store), "bad", "ann").artifact == second
    assert back(store, views(store), "worse", "ann").artifact == first
    point(store, views(store), third, "again", "ann")
    assert back(store, views(store), "no", "ann").artifact == first
    with pytest.raises(NothingBefore):
        back(store, views(store), "further", "ann")


def test_a_move_that_the_views_have_not_seen_is_a_conflict() -> None:
    store = a_store(OLD, NEW)
    stale = views(store)
    point(store, stale, artifact(12), "meanwhile", "bob")
    with pytest.raises(ChampionMoved) as moved:
        back(store, stale, "late", "ann")
    assert moved.value.facts == {"expected": 2, "actual": 3}
    with pytest.raises(ChampionMoved):
        point(store, stale, OLD, "late", "ann")


def test_back_quarantines_what_was_accepted_since() -> None:
    store = a_store()
    for rewrite in ("kept", "came", "later", "candidate"):
        propose(store, rewrite)
    old = artifact(win(store, "kept"))
    add(store, "champion", ChampionPointed(artifact=old, by="genesis", reason="start", evaluation=None))
    new = artifact(win(store, "came"))
    point(store, views(store), new, "learned", "ann")
    win(store, "later")
    moved = back(store, views(store), "it broke", "ann")
    assert (moved.artifact, moved.quarantined) == (old, ("came", "later"))
    assert champion_events(store)[2:] == [
        ChampionPointed(artifact=old, by="rollback", reason="it broke", evaluation=None),
        MemoryQuarantined(piece="came", kind="rewrite", restored=old.memory.upto, reason="it broke"),
        MemoryQuarantined(piece="later", kind="rewrite", restored=old.memory.upto, reason="it broke"),
    ]
    statuses = {key: state.status for key, state in views(store).find(REWRITES).items()}
    assert statuses == {"kept": "promoted", "came": "quarantined", "later": "quarantined", "candidate": "candidate"}


def test_back_quarantines_what_the_restored_memory_leaves_out() -> None:
    store = a_store()
    propose(store, "left-out")
    upto = win(store, "left-out")
    for each in (artifact(upto, without=("left-out",)), artifact(upto)):
        add(store, "champion", ChampionPointed(artifact=each, by="genesis", reason="start", evaluation=None))
    assert back(store, views(store), "why", "ann").quarantined == ("left-out",)


def test_back_quarantines_a_demoted_piece_that_the_present_memory_carries() -> None:
    store = a_store(artifact(0))
    for rewrite in ("carried", "gone"):
        propose(store, rewrite)
    win(store, "gone")
    lose(store, "gone")
    point(store, views(store), artifact(win(store, "carried")), "learned", "ann")
    lose(store, "carried")
    assert back(store, views(store), "why", "ann").quarantined == ("carried",)


def test_back_quarantines_a_piece_that_was_accepted_again_since() -> None:
    store = a_store()
    propose(store, "again")
    point(store, views(store), artifact(win(store, "again")), "start", "ann")
    lose(store, "again")
    point(store, views(store), artifact(win(store, "again")), "learned", "ann")
    assert back(store, views(store), "why", "ann").quarantined == ("again",)


def test_a_quarantined_piece_is_not_quarantined_twice() -> None:
    first, second, third = artifact(0), artifact(0, "a" * 64), artifact(0, "b" * 64)
    store = a_store(first, second, third)
    propose(store, "piece")
    win(store, "piece")
    assert back(store, views(store), "why", "ann").quarantined == ("piece",)
    assert back(store, views(store), "why", "ann").quarantined == ()
