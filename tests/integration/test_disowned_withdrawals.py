"""Withdrawals that were disowned: tables kept up in any steps and tables built again hold what is in force."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine

from eventlog.database import open_engine
from eventlog.events import AnyEvent
from eventlog.postgres import PostgresStore
from eventlog.store import Append, Position
from projections import ALL
from projections.engine import projector, reader, rebuild, withdrawal
from projections.engine.projection import digest_changes, replay
from projections.engine.projector import Projector
from projections.engine.views import PostgresViews
from projections.taint import TAINT
from tests.conftest import Database
from tests.golden.test_golden_samples import sample

FOLDS = (TAINT, *(fold for fold in ALL if fold.rests_on is not None))
RUNS = st.sampled_from(["a", "b", "c"])
ACTS = st.one_of(
    st.tuples(st.sampled_from(["proposes", "wins", "loses", "fails", "withdraws", "withdraws"]), RUNS),
    st.tuples(st.just("disowns"), st.integers(1, 5)),
)
Act = tuple[str, str | int]


def append_act(store: PostgresStore, act: Act) -> None:
    """Append what a run does, its withdrawal, or a disowning of the event that came so many events before."""
    match act:
        case ("disowns", int(back)):
            last = int(store.head())
            stream, event = "disownings", sample("EventsDisowned", positions=[max(1, last + 1 - back)])
        case (verb, str(run)):
            stream, event = event_of(verb, run)
        case _:
            raise AssertionError(act)
    store.append([Append(stream, (event,), "test")])


def event_of(verb: str, run: str) -> tuple[str, AnyEvent]:
    """What a run does, and the stream of that."""
    others = ["b"] if run == "a" else ["a"]
    match verb:
        case "proposes":
            return "rewrite/w", sample("RewriteProposed", rewrite="w", run=run)
        case "wins":
            return "rewrite/w", sample("RewriteWon", rewrite="w", run=run, control_runs=others)
        case "loses":
            return "rewrite/w", sample("RewriteLost", rewrite="w", run=run, control_runs=others)
        case "fails":
            grade = {"passed": False, "score": 0, "cost": None, "value": None}
            return f"run/{run}", sample("RewardGraded", run=run, group="g", **grade)
        case _:
            return "withdrawals", sample("RunsWithdrawn", runs=[run])


CAME_WHILE_WITHDRAWN: list[Act] = [
    ("withdraws", "a"),
    ("proposes", "a"),
    ("wins", "b"),
    ("fails", "a"),
    ("disowns", 4),
    ("withdraws", "b"),
    ("loses", "c"),
]


@pytest.mark.parametrize("page", [2, 20_000])
def test_tables_hold_what_is_in_force_at_every_position(
    clone: Callable[[str], Database], monkeypatch: pytest.MonkeyPatch, page: int
) -> None:
    for module in (reader, rebuild, withdrawal):
        monkeypatch.setattr(module, "PAGE", page)
    monkeypatch.setattr(projector, "_BATCH", page)
    monkeypatch.setattr(projector, "_MOST_KEYS", 1 if page == 2 else 10_000)

    @settings(max_examples=8, deadline=None, suppress_health_check=[*HealthCheck])
    @given(acts=st.lists(ACTS, min_size=6, max_size=16), stops=st.sets(st.integers(1, 16), max_size=4))
    @example(acts=CAME_WHILE_WITHDRAWN, stops=set())
    @example(acts=CAME_WHILE_WITHDRAWN, stops={4})
    @example(acts=CAME_WHILE_WITHDRAWN, stops={1, 2, 3, 4, 5, 6})
    def check(acts: list[Act], stops: set[int]) -> None:
        engine = open_engine(clone("empty").app_url)
        try:
            store, keeping = PostgresStore(engine), Projector(engine, FOLDS)
            for nth, act in enumerate(acts, 1):
                append_act(store, act)
                if nth in stops:
                    keeping.catch_up()
            log = list(store.read())
            for _ in range(2):
                keeping.catch_up()
                for fold in FOLDS:
                    for upto in range(1, len(log) + 1) if fold.stream_of else (len(log),):
                        found = PostgresViews(engine, store, Position(upto)).changes(fold)
                        assert digest_changes(found) == digest_changes(replay(fold, log[:upto])), (fold.name, upto)
                keeping.rebuild([fold.name for fold in FOLDS])
        finally:
            engine.dispose()

    check()


def test_a_marker_that_touches_nothing_looks_for_no_run_that_was_brought_back(
    empty_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, sought = PostgresStore(empty_engine), list[frozenset[str]]()
    looked = reader.rows_left_out

    def noted(connection: Any, log: Any, fold: Any, left_out: Any, upto: int) -> Any:
        sought.append(left_out.runs)
        return looked(connection, log, fold, left_out, upto)

    monkeypatch.setattr(withdrawal, "rows_left_out", noted)
    acts: list[Act] = [("proposes", "a"), ("withdraws", "a"), ("wins", "a"), ("disowns", 2)]
    for act in acts:
        append_act(store, act)
    projector_of = Projector(empty_engine, FOLDS)
    projector_of.catch_up()
    assert frozenset("a") in sought
    sought.clear()
    store.append([Append("prices", (sample("PriceBookSet"),), "test")])
    append_act(store, ("disowns", 1))
    projector_of.catch_up()
    assert len(sought) >= len(FOLDS)
    assert set(sought) == {frozenset()}
