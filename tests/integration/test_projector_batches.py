"""The projector on the golden log: however its batches fall, its tables are what folding the log gives."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from sqlalchemy import Engine

from eventlog.database import open_engine
from eventlog.postgres import PostgresStore
from eventlog.store import START, Append, Position
from eventlog.transfer import import_log
from projections import ALL
from projections.costs import COSTS
from projections.engine import projector
from projections.engine.builds import bookmarks
from projections.engine.projection import AnyFold, EventRow, Fold, digest_changes, replay
from projections.engine.projector import Projector
from projections.engine.views import PostgresViews
from tests.conftest import GOLDEN, Database
from tests.golden.test_golden_samples import golden_log, sample

END = len(golden_log())
DIGESTS: dict[str, str] = json.loads((Path(__file__).parents[1] / "golden" / "digests.json").read_text())


@pytest.fixture
def unfolded(empty_database: Database, empty_engine: Engine) -> Engine:
    """The application's engine on the golden log before any projection read it."""
    owner = open_engine(empty_database.owner_url)
    import_log(owner, GOLDEN)
    owner.dispose()
    return empty_engine


def digest(engine: Engine, fold: AnyFold, upto: int = END) -> str:
    return digest_changes(PostgresViews(engine, PostgresStore(engine), Position(upto)).changes(fold))


def digests(engine: Engine) -> dict[str, str]:
    return {f"{fold.name}.v{fold.version}": digest(engine, fold) for fold in ALL}


def golden() -> dict[str, str]:
    return {name: value for name, value in DIGESTS.items() if name != "log"}


def places(engine: Engine) -> set[int]:
    return {bookmark.position for bookmark in bookmarks(engine)}


@pytest.mark.parametrize("size", [1, 7, 100, 1000])
def test_any_size_of_batch_gives_the_golden_digests(
    unfolded: Engine, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(projector, "_BATCH", size)
    seen: list[int] = []
    assert Projector(unfolded).catch_up(progress=seen.append) == END
    assert digests(unfolded) == golden()
    assert (seen, places(unfolded)) == (sorted(set(seen)), {END})


def test_stopping_on_the_way_and_forgetting_everything_gives_the_same_tables(unfolded: Engine) -> None:
    for upto in (1, 2, 50, 51, 300, 640, 640, END):
        assert Projector(unfolded).catch_up(Position(upto)) == upto
        assert places(unfolded) == {upto}
        for fold in ALL:
            assert digest(unfolded, fold, upto) == digest_changes(replay(fold, golden_log()[:upto]))
    assert digests(unfolded) == golden()


def test_a_small_memory_gives_the_same_tables(unfolded: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(projector, "_BATCH", 50)
    monkeypatch.setattr(projector, "_MOST_KEYS", 3)
    Projector(unfolded).catch_up()
    assert digests(unfolded) == golden()


def test_a_projector_at_the_head_keeps_few_states_however_long_the_log(
    unfolded: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(projector, "_LIVE_KEYS", 5)
    following = Projector(unfolded)
    for upto in range(400, END, 20):
        following.catch_up(Position(upto))
    assert max(len(memory.states) for _, memory in following._memory.values()) <= 2 * 5 + 20
    following.catch_up()
    assert digests(unfolded) == golden()


def test_catching_up_at_the_head_does_nothing_and_going_back_is_not_asked_for(engine: Engine) -> None:
    assert Projector(engine).catch_up() == END
    assert Projector(engine).catch_up(Position(10)) == 10
    assert places(engine) == {END}


def test_an_empty_log_leaves_every_bookmark_at_the_start(empty_engine: Engine) -> None:
    assert Projector(empty_engine).catch_up() == START
    assert places(empty_engine) == {START}


def test_a_rebuild_gives_the_same_tables_and_other_projections_are_left_alone(engine: Engine) -> None:
    found = Projector(engine)
    found.rebuild(["rewrites", "runs"])
    assert digests(engine) == golden()
    found.rebuild(fold.name for fold in ALL)
    assert (digests(engine), places(engine)) == (golden(), {END})


def test_a_rebuild_reaches_what_was_appended_since(engine: Engine) -> None:
    PostgresStore(engine).append([Append("prices", (sample("PriceBookSet", version=9),), "test")])
    Projector(engine).rebuild(["costs"])
    assert {(row.projection, row.position) for row in bookmarks(engine) if row.position > END} == {("costs", END + 1)}


def test_an_unknown_projection_is_not_rebuilt(engine: Engine) -> None:
    with pytest.raises(KeyError):
        Projector(engine).rebuild(["no such projection"])
    assert digests(engine) == golden()


@pytest.mark.parametrize("fold", ALL, ids=lambda fold: str(fold.name))
def test_the_columns_that_a_fold_is_given_are_the_fields_of_the_whole_event(engine: Engine, fold: AnyFold) -> None:
    seen: list[EventRow] = []

    def look(state: Any, row: EventRow) -> Any:
        seen.append(row)
        return state

    watching = Fold(f"{fold.name}_seen", 1, fold.reads, fold.initial, fold.key, look, fold.stream_of)
    Projector(engine, [watching]).catch_up()
    of_sql, seen = seen, []
    replay(watching, golden_log())
    assert len(of_sql) == len(seen)
    for ours, theirs in zip(of_sql, seen, strict=True):
        assert (ours.position, ours.stream, ours.at, ours.actor, ours.type) == (
            theirs.position,
            theirs.stream,
            theirs.at,
            theirs.actor,
            theirs.type,
        )
        assert {path: ours.fields[path] for path in theirs.fields} == theirs.fields


def test_projectors_side_by_side_apply_nothing_twice(
    unfolded: Engine, empty_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(projector, "_BATCH", 20)
    other = open_engine(empty_database.app_url)
    try:
        with ThreadPoolExecutor(6) as pool:
            shared = Projector(unfolded)
            workers = [shared, shared, Projector(unfolded), Projector(other), Projector(other), Projector(other)]
            assert list(pool.map(Projector.catch_up, workers)) == [END] * 6
    finally:
        other.dispose()
    assert (digests(unfolded), places(unfolded)) == (golden(), {END})


def test_catching_up_rebuilding_and_appending_side_by_side_never_wait_for_one_another_in_a_ring(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(projector, "_BATCH", 100)
    store = PostgresStore(engine)
    names = [fold.name for fold in ALL]

    def work(n: int) -> None:
        mine = Projector(engine)
        for turn in range(3):
            if n % 3 == 0:
                mine.rebuild(names[(n + turn) % len(names) :: 2][::-1])
            else:
                store.append([Append("prices", (sample("PriceBookSet", version=10 * n + turn),), "test")])
                mine.catch_up()

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(6)))
    head = Projector(engine).catch_up()
    log = list(store.read())
    for fold in ALL:
        assert digest(engine, fold, head) == digest_changes(replay(fold, log))


def test_a_fold_of_a_new_version_is_built_beside_the_old_one(engine: Engine) -> None:
    def doubled(state: Any, row: EventRow) -> Any:
        found = COSTS.fold(state, row)
        return found if row.type == "PriceBookSet" else replace(found, spent=found.spent + 1)

    newer = Fold("costs", COSTS.version + 1, COSTS.reads, COSTS.initial, COSTS.key, doubled)
    before = digest(engine, COSTS)
    Projector(engine, [newer]).catch_up()
    assert digest(engine, newer) == digest_changes(replay(newer, golden_log())) != before
    assert digest(engine, COSTS) == before
    assert {(row.version, row.position) for row in bookmarks(engine, [COSTS, newer])} == {
        (COSTS.version, END),
        (newer.version, END),
    }


def test_a_projection_that_is_new_reads_the_log_from_its_start(
    engine: Engine, clone: Callable[[str], Database]
) -> None:
    late = Fold("late", 1, COSTS.reads, COSTS.initial, COSTS.key, COSTS.fold)
    assert [row.position for row in bookmarks(engine, [late])] == [START]
    Projector(engine, [*ALL, late]).catch_up()
    assert digest(engine, late) == digest(engine, COSTS)
