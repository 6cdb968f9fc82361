"""Sixteen processes promote and re-point at once on a real PostgreSQL: the history is one line, and refusals say so."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from multiprocessing.synchronize import Barrier

import pytest
from sqlalchemy import Engine

from eventlog.events import AnyEvent, Artifact, ChampionPointed, EvaluationOpened, Memory, Verdict, VerdictReached
from eventlog.postgres import PostgresStore
from eventlog.store import Append, EventStore, Position, Recorded
from gate.errors import ChampionMoved
from gate.promote import STREAM, back, point, settle_evaluation
from projections.champions import CHAMPION, CHAMPIONS
from projections.engine.views import ReplayedViews
from tests.conftest import Database
from tests.golden.test_golden_samples import sample
from tests.racing import raced

RACERS = 16
ZERO = "0" * 64


@dataclass(frozen=True)
class Raced:
    """What one racer did: the reasons of its moves with the positions they took, and how often it was refused."""

    moved: dict[str, Position]
    refused: int


def artifact(upto: int) -> Artifact:
    return Artifact(weights="base", memory=Memory(upto=upto, folds={"rewrites": 1}, without=(), digest=ZERO))


def verdict_on(champion: Artifact, challenger: Artifact) -> Verdict:
    event = sample("VerdictReached")
    assert isinstance(event, VerdictReached)
    verdict = event.verdict
    return verdict.model_copy(
        update={
            "champion": verdict.champion.model_copy(update={"artifact": champion}),
            "challenger": verdict.challenger.model_copy(update={"artifact": challenger}),
        }
    )


def opening(evaluation: str, verdict: Verdict) -> EvaluationOpened:
    return EvaluationOpened(
        evaluation=evaluation,
        benchmark="b",
        benchmark_digest=verdict.benchmark,
        champion=verdict.champion.artifact,
        challenger=verdict.challenger.artifact,
        rules=verdict.rules,
        challenge=0,
        alpha=0,
        suite=(),
    )


def seen(store: EventStore) -> ReplayedViews:
    return ReplayedViews(store, store.head())


def move(store: EventStore, views: ReplayedViews, reason: str, number: int) -> Position:
    """One move as of what the views show, in one of three ways. Raises ChampionMoved."""
    kind, chosen = number % 5, artifact(number)
    if kind == 4:
        return back(store, views, reason, reason).position
    if kind % 2:
        return point(store, views, chosen, reason, reason).position
    versions = [recorded.version for recorded in store.read(stream=STREAM, upto=views.upto)]
    state = views.get(CHAMPIONS, CHAMPION)
    assert state is not None
    verdict = verdict_on(state.pointed_artifact(), chosen)
    evaluation = f"{reason}-{versions[-1]}"
    store.append([Append(f"evaluation/{evaluation}", (opening(evaluation, verdict),), "race")])
    return settle_evaluation(store, evaluation, verdict, versions[-1], reason).last


def racer(store: PostgresStore, together: Barrier, number: int, *, moves: int) -> Raced:
    """Move the champion so often; the first time all have read before any of them appends."""
    moved: dict[str, Position] = {}
    refused = 0
    for turn in range(moves):
        reason, views = f"racer {number} move {turn}", seen(store)
        if turn == 0:
            together.wait()
        while reason not in moved:
            try:
                moved[reason] = move(store, views, reason, turn)
            except ChampionMoved:
                refused += 1
                views = seen(store)
    return Raced(moved, refused)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("moves", [5, pytest.param(13, marks=pytest.mark.endure)])
def test_sixteen_processes_that_move_the_champion_at_once_make_one_line_of_history(
    empty_database: Database, empty_engine: Engine, moves: int
) -> None:
    store = PostgresStore(empty_engine)
    genesis = ChampionPointed(artifact=artifact(0), by="genesis", reason="the first", evaluation=None)
    store.append([Append(STREAM, (genesis,), "race")])

    found = raced(partial(racer, moves=moves), empty_database.app_url, RACERS)

    line = list(store.read(stream=STREAM))
    assert [item.version for item in line] == list(range(1, len(line) + 1))
    pointed = [item for item in line if isinstance(item.event, ChampionPointed)]
    claimed = {reason: position for each in found for reason, position in each.moved.items()}
    assert len(claimed) == RACERS * moves
    assert {item.actor: item.position for item in pointed[1:]} == claimed
    assert len(pointed) == RACERS * moves + 1
    assert sum(each.refused for each in found) >= RACERS - 1
    each_promotion_followed_its_predecessor(line)
    the_stack_is_what_the_line_says(store, pointed)


def each_promotion_followed_its_predecessor(line: list[Recorded]) -> None:
    """Whoever was judged was champion when its verdict came, and the pointing stands right behind the verdict."""
    present: Artifact | None = None
    awaited: AnyEvent | None = None
    for item in line:
        event = item.event
        if isinstance(event, VerdictReached):
            assert awaited is None
            assert event.verdict.champion.artifact == present
            awaited = event
        elif isinstance(event, ChampionPointed):
            assert (event.by == "gate") == (awaited is not None)
            if isinstance(awaited, VerdictReached):
                assert (event.artifact, event.evaluation) == (awaited.verdict.challenger.artifact, awaited.evaluation)
            present, awaited = event.artifact, None
    assert awaited is None


def the_stack_is_what_the_line_says(store: EventStore, pointed: list[Recorded]) -> None:
    """A rollback restored the champion before the one that it met; everything else came on top."""
    stack: list[tuple[Position, Artifact]] = []
    for item in pointed:
        event = item.event
        assert isinstance(event, ChampionPointed)
        if event.by == "rollback":
            stack.pop()
            assert event.artifact == stack[-1][1]
        else:
            stack.append((item.position, event.artifact))
    state = seen(store).get(CHAMPIONS, CHAMPION)
    assert state is not None
    assert state.stack == tuple(position for position, _ in stack)
    assert state.pointed_artifact() == stack[-1][1]
