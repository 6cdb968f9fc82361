"""Tables made again beside the live ones: nobody waits, nothing is applied twice, what breaks off is left."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, TextClause, text

from eventlog.codec import decode
from eventlog.postgres import PostgresStore
from eventlog.store import START, Append, Position, Recorded, Stored
from projections import ALL
from projections.costs import COSTS, SPENT
from projections.engine import reader, rebuild
from projections.engine.builds import Lag, bookmarks, create_builds, lags, lock_builds, remove_dead_builds
from projections.engine.projection import AnyFold, EventRow, Fold, digest_changes, newest_states, replay
from projections.engine.projector import Projector
from projections.engine.rebuild import prune
from projections.engine.views import PostgresViews, catch_up_views
from projections.failures import FAILURES
from projections.frames.framing import FrameViews, compare_frames
from projections.frames.outcomes import FRAMES, OUTCOMES
from projections.rewrites import REWRITES
from projections.runs import RUNS
from tests.conftest import Database
from tests.golden.test_golden_samples import golden_log, sample

END = len(golden_log())
GRADES = [event.position for event in golden_log() if event.event.type == "RewardGraded"]
NAMES = [fold.name for fold in ALL]


def digest(engine: Engine, fold: AnyFold, upto: int = END) -> str:
    return digest_changes(PostgresViews(engine, PostgresStore(engine), Position(upto)).changes(fold))


def tables(engine: Engine) -> list[tuple[str, int, bool, int]]:
    """Every build: its projection, its version, whether it is live, its rows."""
    with engine.connect() as connection:
        rows = connection.execute(
            text("""SELECT projection, version, is_live, (SELECT count(*) FROM fold_rows r WHERE r.build = b.build)
                FROM builds b ORDER BY build""")
        )
        return [tuple(row) for row in rows]


def watched(fold: AnyFold, look: Callable[[EventRow], None]) -> AnyFold:
    """The same fold, which tells of every row that it is given."""

    def step(state: Any, row: EventRow) -> Any:
        look(row)
        return fold.fold(state, row)

    return Fold(fold.name, fold.version, fold.reads, fold.initial, fold.key, step, fold.stream_of, fold.rests_on)


def spent(engine: Engine, upto: int) -> int:
    state = PostgresViews(engine, PostgresStore(engine), Position(upto)).get(COSTS, SPENT)
    return 0 if state is None else state.runs


def test_readers_and_catch_ups_go_on_while_a_table_is_made_again(engine: Engine) -> None:
    at_it, go_on = threading.Event(), threading.Event()

    def look(row: EventRow) -> None:
        if row.position == GRADES[20]:
            at_it.set()
            assert go_on.wait(30)

    with ThreadPoolExecutor(1) as pool:
        making = pool.submit(Projector(engine, [watched(COSTS, look)]).rebuild, ["costs"])
        assert at_it.wait(30)
        assert spent(engine, END) == len(GRADES)
        PostgresStore(engine).append([Append("run/x", (sample("RewardGraded", run="x"),), "test")])
        assert Projector(engine).catch_up() == END + 1
        assert spent(engine, END + 1) == len(GRADES) + 1
        before = tables(engine)
        go_on.set()
        (made,) = making.result()
    assert (made.position, made.parked_at) == (END + 1, None)
    assert len(before) == len(ALL) + 1
    assert {row.position for row in bookmarks(engine, [COSTS])} == {END + 1}
    assert digest(engine, COSTS, END + 1) == digest_changes(replay(COSTS, PostgresStore(engine).read()))
    assert len(tables(engine)) == len(ALL)


class StoppedError(BaseException):
    """Stands for a signal."""


def test_a_rebuild_that_breaks_off_leaves_the_live_table_and_the_next_one_clears_up(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (reader, rebuild):
        monkeypatch.setattr(module, "PAGE", 100)

    def stop(row: EventRow) -> None:
        if row.position == GRADES[-1]:
            raise StoppedError

    with pytest.raises(StoppedError):
        Projector(engine, [watched(COSTS, stop)]).rebuild(["costs"])
    assert [row[2] for row in tables(engine) if row[0] == "costs"] == [True, False]
    assert tables(engine)[-1][3] > 0
    assert digest(engine, COSTS) == digest_changes(replay(COSTS, golden_log()))
    Projector(engine).rebuild(["costs"])
    assert [row[2] for row in tables(engine) if row[0] == "costs"] == [True]
    with engine.connect() as connection:
        assert connection.execute(text("SELECT count(DISTINCT build) FROM fold_rows")).scalar_one() <= len(ALL)


def test_a_rebuild_that_parks_is_not_switched_and_says_where_and_why(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (reader, rebuild):
        monkeypatch.setattr(module, "PAGE", 50)

    def stumble(row: EventRow) -> None:
        if row.position == GRADES[9]:
            raise ValueError("a bad grade")

    folds = [watched(COSTS, stumble), *(fold for fold in ALL if fold is not COSTS)]
    before = tables(engine)
    found = {row.projection: row for row in Projector(engine, folds).rebuild(NAMES)}
    assert [name for name, row in found.items() if row.parked_at is not None] == ["costs"]
    assert found["costs"].parked_at == found["costs"].position < GRADES[9]
    assert found["costs"].parked_error == f"ValueError: a bad grade (at position {GRADES[9]}, RewardGraded)"
    assert [row for row in bookmarks(engine) if row.parked_at is not None or row.position != END] == []
    assert sorted(tables(engine)) == sorted(before)
    assert all(digest(engine, fold) == digest_changes(replay(fold, golden_log())) for fold in ALL)


def test_a_rebuild_mends_a_table_that_is_wrong(engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(text("""DELETE FROM fold_rows WHERE key LIKE '%s1'"""))
    assert digest(engine, RUNS) != digest_changes(replay(RUNS, golden_log()))
    Projector(engine).rebuild(NAMES)
    assert all(digest(engine, fold) == digest_changes(replay(fold, golden_log())) for fold in ALL)


def test_what_a_process_kept_of_a_table_that_was_wrong_ends_with_its_rebuild(engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(
            text("DELETE FROM fold_rows r USING builds b WHERE b.build = r.build AND b.projection = 'rewrites'")
        )
    read = partial(catch_up_views, Projector(engine), engine, PostgresStore(engine))
    assert read().find(REWRITES) == {}
    Projector(engine).rebuild(["rewrites"])
    assert read().find(REWRITES) == newest_states(replay(REWRITES, golden_log())) != {}


def test_tables_of_unknown_versions_are_pruned_and_no_others(engine: Engine) -> None:
    older = Fold("costs", 7, COSTS.reads, COSTS.initial, COSTS.key, COSTS.fold)
    gone = Fold("gone", 1, COSTS.reads, COSTS.initial, COSTS.key, COSTS.fold)
    before = tables(engine)
    Projector(engine, [older]).catch_up()
    Projector(engine, [gone]).catch_up()
    removed = prune(engine, ALL)
    assert [(one.projection, one.version, one.position) for one in removed] == [("costs", 7, END), ("gone", 1, END)]
    assert tables(engine) == before
    assert prune(engine, ALL) == ()


PROGRAM = """
import sys
from eventlog.database import open_engine
from projections import ALL
from projections.engine.projector import Projector
engine = open_engine(sys.argv[1])
projector = Projector(engine)
print("ready", flush=True)
for turn in range(12):
    if sys.argv[2] == "rebuild" and turn % 4 == 0:
        projector.rebuild([fold.name for fold in ALL][turn % 3 :])
    projector.catch_up()
print("done", flush=True)
"""


def test_processes_that_catch_up_and_rebuild_beside_one_another_apply_nothing_twice(
    engine: Engine, database: Database
) -> None:
    store = PostgresStore(engine)
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, database.app_url, role],
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        for role in ("catch up", "catch up", "rebuild")
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    number = 0
    while any(process.poll() is None for process in processes) and number < 3000:
        number += 1
        event = sample("RewardGraded", run=f"r{number}", group=f"g{number % 5}")
        store.append([Append(f"run/r{number}", (event,), "test")])
    for process in processes:
        with process:
            assert process.stdout is not None
            assert process.stdout.read() == "done\n"
        assert process.returncode == 0
    head, log = Projector(engine).catch_up(), list(store.read())
    assert head == END + number
    for fold in ALL:
        assert digest(engine, fold, head) == digest_changes(replay(fold, log))


@dataclass(frozen=True)
class WholeLog:
    """A store that has what is no longer in the table."""

    rows: Sequence[Stored]

    def read_stored(
        self, *, after: Position = START, upto: Position | None = None, types: Sequence[str] | None = None
    ) -> Iterator[Stored]:
        last = len(self.rows) if upto is None else upto
        return (row for row in self.rows if after < row.position <= last and (types is None or row.type in types))

    def read(
        self,
        *,
        after: Position = START,
        upto: Position | None = None,
        stream: str | None = None,
        types: Sequence[str] | None = None,
        actor: str | None = None,
    ) -> Iterator[Recorded]:
        for row in self.read_stored(after=after, upto=upto, types=types):
            if stream in {None, row.stream} and actor in {None, row.actor}:
                yield decode(row)

    def disowned_positions(self, upto: Position | None = None) -> frozenset[Position]:
        raise NotImplementedError

    def head(self) -> Position:
        return Position(len(self.rows))

    def append(self, requests: Sequence[Append]) -> list[Any]:
        raise NotImplementedError

    def append_together(self, requests: Sequence[Append]) -> list[Any]:
        raise NotImplementedError

    def subscribe(self, *, after: Position, until: Any) -> Iterator[Any]:
        raise NotImplementedError


@pytest.mark.parametrize("gone", [300, 10_000])
def test_what_left_the_table_is_folded_from_the_archive(
    engine: Engine, owner_engine: Engine, monkeypatch: pytest.MonkeyPatch, gone: int
) -> None:
    for module in (reader, rebuild):
        monkeypatch.setattr(module, "PAGE", 70)
    table = PostgresStore(engine)
    table.append([Append("withdrawals", (sample("RunsWithdrawn", runs=failed_runs()[:2]),), "test")])
    whole, log = WholeLog(list(table.read_stored())), list(table.read())
    with owner_engine.begin() as connection:
        connection.execute(text("ALTER TABLE events DISABLE TRIGGER USER"))
        connection.execute(text("DELETE FROM events WHERE position <= :gone"), {"gone": gone})
    projecting = Projector(engine, store=whole)
    made = projecting.rebuild(NAMES)
    assert {(row.position, row.parked_at) for row in made} == {(len(log), None)}
    for upto in (1, 250, 299, 300, 301, 450, len(log)):
        views = PostgresViews(engine, whole, Position(upto))
        for fold in ALL:
            assert digest_changes(views.changes(fold)) == digest_changes(replay(fold, log[:upto])), (fold.name, upto)
    assert projecting.catch_up() == len(log)


def failed_runs() -> list[str]:
    found = [change.key for change in replay(FAILURES, golden_log()) if change.state and change.state.is_failure]
    return sorted(found)


def test_withdrawn_runs_leave_what_was_learned_and_stay_in_what_happened(engine: Engine) -> None:
    store, run = PostgresStore(engine), failed_runs()[0]
    store.append([Append("withdrawals", (sample("RunsWithdrawn", runs=(run,)),), "test")])
    projecting = Projector(engine)
    now, then = (
        catch_up_views(projecting, engine, store),
        catch_up_views(projecting, engine, store, as_of=Position(END)),
    )
    assert now.get(FAILURES, run) is None
    assert run not in now.find(FAILURES)
    assert then.get(FAILURES, run) is not None
    assert now.get(RUNS, run) == then.get(RUNS, run) is not None
    assert now.find(COSTS) == then.find(COSTS)
    store.append([Append(f"run/{run}", (sample("RewardGraded", run=run, passed=False),), "test")])
    assert catch_up_views(projecting, engine, store).get(FAILURES, run) is None


def test_how_far_a_projection_is_behind_is_said_in_events_and_in_seconds(engine: Engine) -> None:
    assert {(lag.events, lag.seconds) for lag in lags(engine)} == {(0, 0.0)}
    PostgresStore(engine).append([Append("prices", (sample("PriceBookSet", version=9),) * 3, "test")])
    found = {lag.projection: lag for lag in lags(engine)}
    assert {lag.events for lag in found.values()} == {3}
    assert all(0 < lag.seconds < 60 for lag in found.values())
    assert found["costs"] == Lag("costs", COSTS.version, Position(END), 3, found["costs"].seconds, is_parked=False)
    Projector(engine).catch_up()
    assert {lag.events for lag in lags(engine)} == {0}


@pytest.mark.reads
@pytest.mark.writes
def test_replaced_tables_are_removed_in_the_order_in_which_catch_ups_lock_them(engine: Engine) -> None:
    both: list[AnyFold] = [COSTS, RUNS]
    first, last = sorted(both, key=lambda fold: fold.name)
    with engine.begin() as connection:
        made = {build.projection: build for build in create_builds(connection, [last, first])}
    with engine.connect() as holder, ThreadPoolExecutor(1) as pool:
        lock_builds(holder, [made[first.name]])
        session = holder.exec_driver_sql("SELECT pg_backend_pid()").scalar_one()
        removing = pool.submit(_remove_dead, engine, [first, last])
        held_up = text("SELECT EXISTS (SELECT FROM pg_stat_activity WHERE :session = ANY(pg_blocking_pids(pid)))")
        while not _asked(engine, held_up, session):
            assert not removing.done()
        lock_builds(holder, [made[last.name]])
        holder.rollback()
        removing.result()
    assert len(tables(engine)) == len(ALL)


def _asked(engine: Engine, statement: TextClause, session: int) -> bool:
    with engine.connect() as connection:  # a transaction of its own: in one, the list of sessions does not change
        return bool(connection.execute(statement, {"session": session}).scalar_one())


def _remove_dead(engine: Engine, folds: Sequence[AnyFold]) -> None:
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        remove_dead_builds(connection, folds)


def test_a_frame_read_bit_by_bit_is_the_frame_read_at_once(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (reader, rebuild):
        monkeypatch.setattr(module, "PAGE", 60)
    store = PostgresStore(engine)
    slowly = FrameViews(engine, store)
    for frame in FRAMES:
        for upto in (0, 100, 101, 500, 30, END):
            at_once = FrameViews(engine, store).read(frame, Position(upto))
            assert slowly.read(frame, Position(upto)).equals(at_once)
        assert at_once.height > 1
    assert [row.is_identical for row in compare_frames(engine, store, Position(END))] == [True, True]


@pytest.mark.reads
def test_a_frame_and_a_fold_agree_on_how_runs_went(engine: Engine) -> None:
    runs = PostgresViews(engine, PostgresStore(engine), Position(END)).find(RUNS).values()
    rows = FrameViews(engine, PostgresStore(engine)).read(OUTCOMES, Position(END)).to_dicts()
    of_fold = Counter((run.sweep, run.template, run.candidate is not None) for run in runs)
    assert {(row["sweep"], row["template"], row["is_treated"]): row["runs"] for row in rows} == of_fold
    assert sum(row["steps"] for row in rows) == sum(run.steps for run in runs)
