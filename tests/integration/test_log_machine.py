"""Appending, folding, rebuilding and reading as of any position, in any order: the table is the list."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from sqlalchemy import Engine

from eventlog.chain import GENESIS, verified
from eventlog.database import open_engine
from eventlog.events import AnyEvent
from eventlog.memory import MemoryStore
from eventlog.postgres import PostgresStore
from eventlog.store import START, Append, Position
from migrations.migrate import migrate
from projections import ALL, projector, reader, rebuild, withdrawal
from projections.projection import AnyFold, digest_changes, replay
from projections.projector import Projector
from projections.views import PostgresViews, ReplayedViews, at_least
from tests.conftest import Database
from tests.golden.test_golden_samples import sample

NAMES = st.sampled_from(["a", "b", "c"])
GROUPS = st.sampled_from(["a-group", "b-group"])
FOLDS = st.sampled_from(ALL)
REACHED = st.sampled_from([fold for fold in ALL if fold.rests_on is not None])


def run_events(run: str, group: str) -> st.SearchStrategy[AnyEvent]:
    return st.sampled_from(
        [
            sample("InstanceReset", run=run, group=group),
            sample("StepTaken", run=run, outcome="not_found"),
            sample("RunFinished", run=run),
            sample("RunMissing", run=run, group=group),
            sample("RewardGraded", run=run, group=group, passed=False, score=0, cost=None, value=None),
            sample("RewardGraded", run=run, group=group),
        ]
    )


def started(run: str, group: str) -> AnyEvent:
    event = sample("RunStarted", run=run, arm=None)
    payload = event.model_dump(mode="json", exclude={"type"})
    return sample("RunStarted", **{**payload, "spec": {**payload["spec"], "group_id": group}})


def rewrite_event(rewrite: str) -> st.SearchStrategy[AnyEvent]:
    return st.sampled_from(
        [
            *(sample("RewriteProposed", rewrite=rewrite, run=run) for run in ("a", "c")),
            *(sample("RewriteWon", rewrite=rewrite, run=run, control_runs=()) for run in ("a", "b", "c")),
            sample("RewriteLost", rewrite=rewrite, run="b", control_runs=("a", "c")),
            sample("MemoryQuarantined", piece=rewrite),
        ]
    )


class LogMachine(RuleBasedStateMachine):
    """Both stores hold the same; the model folds the log whenever it is asked."""

    engines: Iterator[Engine]
    appended = Bundle("appended")

    @initialize()
    def begin(self) -> None:
        self.engine = next(self.engines)
        self.at = datetime(2026, 1, 1, tzinfo=UTC)
        self.table, self.list = PostgresStore(self.engine), MemoryStore(lambda: self.at)
        self.projector = Projector(self.engine)

    def both(self, requests: list[Append]) -> None:
        """Append to the table, then to the list with the table's clock: outcomes and events are the same."""
        before = self.table.head()
        outcomes = list(self.table.append(requests))
        self.at = next((row.at for row in self.table.stored(after=before)), self.at)
        assert list(self.list.append(requests)) == outcomes

    @rule(target=appended, data=st.data(), run=NAMES, group=GROUPS, amount=st.integers(1, 4))
    def a_run_goes_on(self, data: st.DataObject, run: str, group: str, amount: int) -> Append:
        events = [data.draw(run_events(run, group)) for _ in range(amount)]
        version = sum(event.stream == f"run/{run}" for event in self.list.stored())
        request = Append(f"run/{run}", (*([] if version else [started(run, group)]), *events), "machine", version)
        self.both([request])
        return request

    @rule(target=appended, data=st.data(), rewrite=NAMES, amount=st.integers(1, 6))
    def a_rewrite_is_tried(self, data: st.DataObject, rewrite: str, amount: int) -> Append:
        events = tuple(data.draw(rewrite_event(rewrite)) for _ in range(amount))
        request = Append(f"rewrite/{rewrite}", events, "machine")
        self.both([request])
        return request

    @rule(runs=st.lists(NAMES | st.just("never-played"), min_size=1, max_size=2))
    def runs_are_withdrawn(self, runs: list[str]) -> None:
        self.both([Append("withdrawals", (sample("RunsWithdrawn", runs=runs),), "machine")])

    @rule(upto=st.integers(0, 9), by=st.sampled_from(["gate", "operator", "rollback"]), expect=st.none() | st.just(1))
    def the_champion_is_moved(self, upto: int, by: str, expect: int | None) -> None:
        kept = sample("ChampionPointed").model_dump(mode="json")
        artifact = {**kept["artifact"], "memory": {**kept["artifact"]["memory"], "upto": upto}}
        self.both([Append("champion", (sample("ChampionPointed", artifact=artifact, by=by),), "machine", expect)])

    @rule(again=appended, other=NAMES)
    def an_append_is_tried_again_beside_one_that_misuses_its_key(self, again: Append, other: str) -> None:
        misused = Append(f"rewrite/{other}", (sample("RewriteWon", rewrite=other, run="misused"),), "m", key=again.key)
        outdated = Append(again.stream, again.events, "machine", expect=10_000)
        self.both([again, misused, outdated, again])

    @rule()
    def the_projector_catches_up(self) -> None:
        assert self.projector.catch_up() == self.list.head()

    @precondition(lambda self: self.list.head() > 1)
    @rule(data=st.data())
    def the_projector_goes_part_of_the_way(self, data: st.DataObject) -> None:
        self.projector.catch_up(Position(data.draw(st.integers(1, self.list.head()))))

    @rule()
    def another_projector_takes_over(self) -> None:
        self.projector = Projector(self.engine)

    @rule(folds=st.lists(FOLDS, min_size=1, max_size=3, unique_by=lambda fold: fold.name))
    def projections_are_rebuilt(self, folds: list[AnyFold]) -> None:
        self.projector.rebuild([fold.name for fold in folds])

    @rule(data=st.data(), fold=FOLDS | REACHED)
    def a_projection_is_read_as_of_a_position(self, data: st.DataObject, fold: AnyFold) -> None:
        upto = Position(data.draw(st.integers(0, self.list.head())))
        views = at_least(self.projector, self.engine, self.table, as_of=upto)
        model = ReplayedViews(self.list, upto)
        found = model.find(fold)
        assert views.find(fold) == found
        for key in list(found)[:2]:
            assert views.get(fold, key) == found[key]
            assert views.history(fold, key) == model.history(fold, key)

    @rule(data=st.data())
    def the_log_is_read_in_part(self, data: st.DataObject) -> None:
        after = Position(data.draw(st.integers(0, self.list.head())))
        stream = data.draw(st.none() | st.sampled_from(["run/a", "rewrite/b", "champion", "none"]))
        types = data.draw(st.none() | st.just(["RewriteWon", "RunFinished"]))
        ours, theirs = (store.read(after=after, stream=stream, types=types) for store in (self.table, self.list))
        assert [(r.position, r.version, r.event) for r in ours] == [(r.position, r.version, r.event) for r in theirs]

    @invariant()
    def the_stores_hold_the_same(self) -> None:
        assert self.table.head() == self.list.head()

    def teardown(self) -> None:
        """At the end the log is whole, the same in both, and every table is what folding it gives."""
        if not hasattr(self, "table"):
            return
        rows = list(verified(self.table.stored(), after=START, previous=GENESIS))
        assert [(row.position, row.chain) for row in rows] == [(row.position, row.chain) for row in self.list.stored()]
        head = self.projector.catch_up()
        views, log = PostgresViews(self.engine, self.table, head), list(self.table.read())
        for fold in ALL:
            assert digest_changes(views.changes(fold)) == digest_changes(replay(fold, log))


@pytest.fixture
def fresh(empty_database: Database) -> Iterator[Iterator[Engine]]:
    """Engines on empty logs, as many as are asked for: each is a project of its own."""
    opened: list[Engine] = []

    def make() -> Iterator[Engine]:
        for number in itertools.count():
            if opened:
                opened[-1].dispose()
            owner = open_engine(empty_database.owner_url, f"p{number}")
            migrate(owner, app_role=empty_database.app_role)
            owner.dispose()
            opened.append(open_engine(empty_database.app_url, f"p{number}"))
            yield opened[-1]

    yield make()
    for engine in opened:
        engine.dispose()


@pytest.mark.parametrize(("positions", "keys"), [(20_000, 10_000), (3, 1)])
def test_both_stores_agree_whatever_is_done_in_whatever_order(
    fresh: Iterator[Engine], monkeypatch: pytest.MonkeyPatch, positions: int, keys: int
) -> None:
    """Also where a page holds three positions and the projector remembers next to nothing."""
    for module in (reader, rebuild, withdrawal):
        monkeypatch.setattr(module, "PAGE", positions)
    monkeypatch.setattr(projector, "_BATCH", positions)
    monkeypatch.setattr(projector, "_MOST_KEYS", keys)

    class Machine(LogMachine):
        engines = fresh

    run_state_machine_as_test(
        Machine,
        settings=settings(max_examples=15, stateful_step_count=30, deadline=None, suppress_health_check=[*HealthCheck]),
    )
