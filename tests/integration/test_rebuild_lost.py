"""A rebuild whose session is lost or interrupted: the live tables stay, nothing is left behind, no lock is kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from sqlalchemy import Connection, Engine, text

from projections import ALL
from projections.costs import COSTS
from projections.engine import builds, reader, rebuild
from projections.engine.projection import AnyFold, digest_changes, replay
from projections.engine.projector import Projector
from projections.engine.rebuild import prune
from projections.errors import RebuildLost
from tests.golden.test_golden_samples import golden_log

from .test_builds import digest, tables

LOCKS = """SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"""


def locks(engine: Engine) -> list[int]:
    """The sessions that hold an advisory lock, once for each lock."""
    with engine.connect() as connection:
        return list(connection.execute(text(LOCKS)).scalars())


def end_guard(engine: Engine) -> None:
    (guard,) = set(locks(engine))
    with engine.connect() as connection:
        query = text("SELECT pg_terminate_backend(:guard, 10000)")
        assert connection.execute(query, {"guard": guard}).scalar_one()


def orphans(engine: Engine) -> int:
    with engine.connect() as connection:
        query = "SELECT count(*) FROM fold_rows WHERE build NOT IN (SELECT build FROM builds)"
        return int(connection.execute(text(query)).scalar_one())


def is_whole(engine: Engine) -> bool:
    return digest(engine, COSTS) == digest_changes(replay(COSTS, golden_log()))


def once(work: Callable[[], object]) -> Callable[[int], object]:
    """A progress that does something at its first call."""
    left = [work]
    return lambda _: left.pop()() if left else None


@pytest.fixture(autouse=True)
def _small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (reader, rebuild):
        monkeypatch.setattr(module, "PAGE", 100)


def test_a_rebuild_that_loses_its_session_says_so_and_the_live_table_stays(engine: Engine) -> None:
    before = [row for row in tables(engine) if row[0] == "costs"]
    with pytest.raises(RebuildLost, match="run the rebuild again"):
        Projector(engine).rebuild(["costs"], progress=once(lambda: end_guard(engine)))
    assert [row for row in tables(engine) if row[0] == "costs" and row[2]] == before
    assert is_whole(engine)
    Projector(engine).rebuild(["costs"])
    assert (len(tables(engine)), orphans(engine), is_whole(engine)) == (len(ALL), 0, True)


def test_a_rebuild_that_another_overtook_says_so_and_the_others_table_stays(engine: Engine) -> None:
    def overtake() -> None:
        end_guard(engine)
        Projector(engine).rebuild(["costs"])

    with pytest.raises(RebuildLost):
        Projector(engine).rebuild(["costs"], progress=once(overtake))
    assert [row[2] for row in tables(engine) if row[0] == "costs"] == [True]
    assert (orphans(engine), is_whole(engine)) == (0, True)


def test_a_rebuild_overtaken_after_its_last_page_is_not_made_live(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish = rebuild._Line.finish

    def overtaken(line: rebuild._Line) -> object:
        monkeypatch.setattr(rebuild._Line, "finish", finish)
        end_guard(engine)
        Projector(engine).rebuild(["costs"])
        return finish(line)

    monkeypatch.setattr(rebuild._Line, "finish", overtaken)
    with pytest.raises(RebuildLost, match="another rebuild removed 1 of the tables"):
        Projector(engine).rebuild(["costs"])
    assert [row[2] for row in tables(engine) if row[0] == "costs"] == [True]
    assert (orphans(engine), is_whole(engine)) == (0, True)


def test_a_session_lost_after_the_switch_leaves_the_new_table_live(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish = rebuild._Line.finish

    def lost(line: rebuild._Line) -> object:
        found = finish(line)
        end_guard(engine)
        return found

    monkeypatch.setattr(rebuild._Line, "finish", lost)
    (made,) = Projector(engine).rebuild(["costs"])
    assert (made.parked_at, is_whole(engine), locks(engine)) == (None, True, [])


def test_a_build_that_is_gone_is_neither_moved_nor_made_live(engine: Engine) -> None:
    gone = builds.Build(10**9, "costs", COSTS.version, 0, is_parked=False)
    with engine.connect() as connection:
        with pytest.raises(RebuildLost), connection.begin():
            builds.switch(connection, [gone])
        with pytest.raises(RebuildLost), connection.begin():
            builds.move(connection, [gone.build], 5)
    assert is_whole(engine)


@pytest.mark.parametrize("clear_up", [lambda e: prune(e, ALL), lambda e: Projector(e).rebuild(["runs"])])
def test_rows_without_a_build_are_removed(engine: Engine, clear_up: Callable[[Engine], object]) -> None:
    with engine.begin() as connection:
        for build in (0, 10**9):
            connection.execute(
                text("INSERT INTO fold_rows VALUES (:build, 'k', 1, 1, NULL), (:build, 'l', 1, 1, NULL)"),
                {"build": build},
            )
    assert orphans(engine) == 4
    clear_up(engine)
    assert (orphans(engine), is_whole(engine)) == (0, True)


class StoppedError(BaseException):
    """Stands for a signal."""


@pytest.mark.parametrize("work", [lambda e: Projector(e).rebuild(["costs", "runs"]), lambda e: prune(e, ALL)])
def test_an_interrupt_while_folds_are_claimed_keeps_no_lock(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, work: Callable[[Engine], object]
) -> None:
    def half(connection: Connection, folds: Sequence[AnyFold]) -> None:
        builds.claim_builds(connection, folds[:1])
        raise StoppedError

    monkeypatch.setattr(rebuild, "claim_builds", half)
    with pytest.raises(StoppedError):
        work(engine)
    assert locks(engine) == []
