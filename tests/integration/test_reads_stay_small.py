"""A read that finds little touches little, however much else the log and the tables hold."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from time import sleep
from types import SimpleNamespace
from typing import Any, cast

import pytest
from psycopg import sql
from sqlalchemy import Connection, Engine, event, text

from agents.envs.provider import known_sites
from api.controllers import fast
from api.controllers.fast import Controller
from api.course import WARM_UP, Course
from api.evaluations.benchmarks import instances_seen
from api.history.disown import disown
from api.house import House
from api.queries.sweeps import names_planned_by, page_sweeps, planned_by
from api.sweeps.plan import first_facts
from benchmarks.made import encoded_of_run
from eventlog.database import single_statements
from eventlog.postgres import holding_statement
from eventlog.store import Append, EventStore, Position, Recorded
from projections.rewrites import REWRITES
from tests.golden.test_golden_samples import sample

from .test_rest_samples import SampleRun, record

RUNS = 200
"""Planted runs: some 2,800 events."""


@pytest.fixture
def planted(empty_house: House) -> House:
    """A house whose log holds many events of runs, and one price book before them."""
    empty_house.store.append([Append("prices", (sample("PriceBookSet"),), "test")])
    empty_house.store.append_encoded([one for number in range(RUNS) for one in encoded_of_run(number)])
    return empty_house


@contextmanager
def statements(engine: Engine) -> Iterator[list[tuple[str, Any]]]:
    """The statements that are executed meanwhile, with their parameters."""
    found: list[tuple[str, Any]] = []

    def take(_connection: Any, _cursor: Any, statement: str, values: Any, *_more: Any) -> None:
        found.append((statement, values))

    event.listen(engine, "before_cursor_execute", take)
    try:
        yield found
    finally:
        event.remove(engine, "before_cursor_execute", take)


def rows_touched(engine: Engine, read: Callable[[], object]) -> int:
    """How many rows the statements of a read look at, those that they throw away included."""
    with statements(engine) as found:
        read()
    total = 0
    for statement, values in found:
        if not statement.lstrip().startswith(("SELECT", "WITH")):
            continue
        with engine.connect() as connection:
            explained = connection.exec_driver_sql(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}", values).scalar_one()
        plans = json.loads(explained) if isinstance(explained, str) else explained
        total += _rows_of(plans[0]["Plan"])
    return total


def vacuum(connection: Connection, table: str) -> None:
    """Vacuum and analyze a table until all its pages are known to be visible to everyone.

    They are not as long as any transaction in the database is older, such as one of autovacuum: then the planner takes
    no index alone for an answer.
    """
    unseen = text("""SELECT coalesce(sum(c.relpages - c.relallvisible), 0) FROM pg_class c
        JOIN pg_partition_tree(CAST(:table AS regclass)) t ON t.relid = c.oid AND t.isleaf""")
    for _ in range(50):
        connection.exec_driver_sql(f"VACUUM ANALYZE {table}")
        if not connection.execute(unseen, {"table": table}).scalar_one():
            return
        sleep(0.2)
    raise RuntimeError(f"a transaction has kept {table} from being vacuumed for ten seconds")


def _rows_of(plan: dict[str, Any]) -> int:
    own = 0
    if "Relation Name" in plan:
        removed = plan.get("Rows Removed by Filter", 0) + plan.get("Rows Removed by Index Recheck", 0)
        own = round((plan["Actual Rows"] + removed) * plan["Actual Loops"])
    return own + sum(map(_rows_of, plan.get("Plans", ())))


def _read_all(store: EventStore, types: list[str]) -> list[Recorded]:
    return list(store.read(types=types))


def test_no_other_event_is_looked_at_to_find_one_of_a_rare_type_or_none(planted: House) -> None:
    engine, store = planted.engine, planted.store
    assert store.head() > RUNS * 10
    assert [each.position for each in store.read(types=["PriceBookSet"])] == [1]
    for types in (["PriceBookSet"], ["SweepPlanned"], ["PriceBookSet", "SweepPlanned", "BenchmarkFrozen"]):
        assert rows_touched(engine, partial(_read_all, store, types)) < 20


def test_the_first_page_of_a_common_type_looks_at_no_more_than_a_page(planted: House) -> None:
    assert rows_touched(planted.engine, lambda: next(planted.store.read(types=["RewardGraded"]))) <= 3 * RUNS


def test_pieces_are_found_without_a_look_at_what_they_were_before(planted: House) -> None:
    views = planted.views()
    assert len(views.history(REWRITES, "rw-made-0")) >= RUNS / 10
    assert list(views.find(REWRITES)) == ["rw-made-0"]
    assert rows_touched(planted.engine, partial(views.find, REWRITES)) < 10


def test_pieces_that_a_process_has_found_before_are_not_read_again(empty_house: House) -> None:
    proposed = [sample("RewriteProposed", rewrite=f"rw-{number}") for number in range(100)]
    empty_house.store.append([Append("rewrite/all", tuple(proposed), "test")])
    before = empty_house.views().find(REWRITES)
    lost = sample("RewriteLost", rewrite="rw-7", run="another", control_runs=[])
    empty_house.store.append([Append("rewrite/rw-7", (lost,), "test")])
    after, views = empty_house.views().find(REWRITES), empty_house.views()
    assert {key for key, state in after.items() if state != before[key]} == {"rw-7"}
    assert rows_touched(empty_house.engine, partial(views.find, REWRITES)) == 1  # the row of the build
    empty_house.store.append([Append("rewrite/rw-7", (lost,), "test")])
    assert rows_touched(empty_house.engine, partial(empty_house.views().find, REWRITES)) < 10


def test_reads_of_several_types_come_in_order_and_each_event_once(planted: House) -> None:
    wanted = ["RunStarted", "RewardGraded", "RunStarted"]
    found = [each.position for each in planted.store.read(types=wanted)]
    every = [each.position for each in planted.store.read() if each.event.type in wanted]
    assert found == every
    assert [each.position for each in planted.store.read(types=wanted, after=Position(500), upto=Position(900))] == [
        position for position in every if 500 < position <= 900
    ]


def test_the_planner_is_told_which_markers_are_wanted(planted: House) -> None:
    with statements(planted.engine) as executed:
        assert planted.store.disowned_positions() == frozenset()
    (statement,) = (each for each, _values in executed if "dropped_markers" in each)
    assert "f.type = 'EventsDisowned'" in statement  # with a variable it expects an average type, and reads every event


def test_no_other_event_is_looked_at_to_learn_that_no_token_was_changed(planted: House) -> None:
    types = ("TokenIssued", "TokenRevoked")
    assert not planted.store.may_hold(types, after=Position(1))
    with single_statements(planted.engine) as cursor:
        explain = sql.SQL("EXPLAIN (ANALYZE, FORMAT JSON) {}").format(holding_statement(types))
        looks = [cursor.execute(explain, {"after": 1}, prepare=True).fetchone() for _ in range(7)]
    for look in looks:  # the last ones by a plan for any position
        assert look is not None
        plans = look[0] if isinstance(look[0], list) else json.loads(look[0])
        assert _rows_of(plans[0]["Plan"]) < 20
    planted.store.append([Append("prices", (sample("PriceBookSet"),), "test")])
    assert planted.store.may_hold(("TokenIssued", "PriceBookSet"), after=Position(1))


def test_the_plans_of_one_actor_are_found_without_a_look_at_those_of_others(planted: House) -> None:
    requests = [
        Append(f"sweep/s{number}", (sample("SweepPlanned", sweep=f"s{number}", environment="shop"),), "controller")
        for number in range(100)
    ]
    own = [
        Append(f"sweep/w-{site}", (sample("SweepPlanned", sweep=f"w-{site}", environment=site),), WARM_UP)
        for site in ("shop", "forum")
    ]
    planted.store.append([*requests, *own])
    views = planted.views()
    assert [each.sweep for each in planned_by(planted.store, views, WARM_UP, "shop")] == ["w-shop"]
    assert names_planned_by(views, WARM_UP) == {"w-shop", "w-forum"}
    assert rows_touched(planted.engine, partial(names_planned_by, views, WARM_UP)) < 20
    with statements(planted.engine) as executed:
        planned_by(planted.store, views, WARM_UP, "shop")
    assert not any("SweepPlanned" in str(values) for _statement, values in executed)  # no page of all plans is read


def test_instances_that_were_seen_are_found_without_a_look_at_the_runs_of_sweeps(planted: House) -> None:
    event = sample("SweepPlanned", sweep="s1")
    outside = SampleRun("ext-1", group="ext-1", sweep="ext-1").started("0" * 64)
    planted.store.append([Append("sweep/s1", (event,), "controller"), Append("run/ext-1", (outside,), "api:theirs")])
    views = planted.views()
    tasks = {template.template_id: template.oracle_task_id for template in event.templates}
    expected = {(event.environment, tasks[spec.template], spec.env_seed) for spec in event.specs}
    assert instances_seen(planted, views) == expected
    assert rows_touched(planted.engine, partial(instances_seen, planted, views)) < RUNS


def test_runs_whose_plan_was_disowned_count_as_seen(empty_house: House) -> None:
    store, planned = empty_house.store, sample("SweepPlanned", sweep="s1")
    store.append([Append("sweep/s1", (planned,), "api:theirs")])
    record(store, empty_house.blobs, SampleRun("s1__r", template="t", environment="shop", env_seed=5))
    assert ("shop", "t", 5) not in instances_seen(empty_house, empty_house.views())
    disown(store, empty_house.views(), [1], "forged", "cli")
    assert instances_seen(empty_house, empty_house.views()) == {("shop", "t", 5)}


def test_a_decision_reads_what_can_be_tried_only_where_it_decides_by_it(
    empty_house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    first_facts(empty_house)
    monkeypatch.setattr(fast, "trial_pool", lambda *_: pytest.fail("it was read"))
    tasks = known_sites()["marketplace"].tasks
    site = SimpleNamespace(health=lambda: SimpleNamespace(site="marketplace", tasks=tasks))
    controller = Controller(empty_house, cast("Any", site), "marketplace", Course(), cast("Any", None))
    step, _ = controller.next_step(empty_house.views())
    assert step.what == "plan_sweep"


def test_a_page_of_the_newest_sweeps_looks_at_no_more_of_them_than_it_shows(empty_house: House) -> None:
    names = [f"s{number}" for number in range(600)]
    planned = [Append(f"sweep/{name}", (sample("SweepPlanned", sweep=name),), "test") for name in names]
    empty_house.store.append(planned)
    views = empty_house.views()
    with empty_house.engine.begin() as connection:
        connection.exec_driver_sql("ANALYZE")
    page, following = page_sweeps(empty_house.store, views, limit=10)
    assert (page, following) == (tuple(reversed(names[-10:])), names[-10])
    older, _ = page_sweeps(empty_house.store, views, after=following, limit=10)
    assert older == tuple(reversed(names[-20:-10]))
    read = partial(page_sweeps, empty_house.store, views, limit=10)
    assert rows_touched(empty_house.engine, read) < 50
