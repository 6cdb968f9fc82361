"""What goes wrong while folding: a bad event parks one projection, the database's trouble parks none."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar, Literal

import pytest
from sqlalchemy import Engine, make_url, text
from sqlalchemy.exc import OperationalError

from eventlog.codec import EncodedAppend, EncodedEvent
from eventlog.database import open_engine
from eventlog.events import EVENT_TYPES, PriceBookSet
from eventlog.postgres import PostgresStore
from eventlog.store import Append, Position
from eventlog.upcast import UPCASTERS
from projections import ALL
from projections.costs import COSTS, PRICES
from projections.engine import projector
from projections.engine.builds import Bookmark, bookmarks
from projections.engine.projection import AnyFold, EventRow, Fold, digest_changes, replay
from projections.engine.projector import Projector
from projections.engine.views import PostgresViews, catch_up_views
from projections.errors import NotThereYet, ProjectionParked
from projections.rewrites import REWRITES
from projections.runs import RUNS
from tests.conftest import Database
from tests.golden.test_golden_samples import golden_log, sample

END = len(golden_log())
GRADES = [event.position for event in golden_log() if event.event.type == "RewardGraded"]


class StoppedError(BaseException):
    """Stands for a signal: no fold raises it, and no projection parks on it."""


def stumbling(position: int, error: BaseException | None = None) -> tuple[AnyFold, dict[str, BaseException | None]]:
    """The costs again, by another name, stumbling at a position while there is an `error`."""
    trouble = {"error": error}

    def fold(state: Any, row: EventRow) -> Any:
        if row.position == position and trouble["error"] is not None:
            raise trouble["error"]
        return COSTS.fold(state, row)

    return Fold("stumbling", 1, COSTS.reads, COSTS.initial, COSTS.key, fold), trouble


def place(engine: Engine, fold: AnyFold) -> Bookmark:
    (found,) = bookmarks(engine, [fold])
    return found


def digest(engine: Engine, fold: AnyFold) -> str:
    return digest_changes(PostgresViews(engine, PostgresStore(engine), Position(END)).changes(fold))


def test_a_bad_event_parks_its_projection_before_it_and_the_others_go_on(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(projector, "_BATCH", 10)
    fold, trouble = stumbling(GRADES[40], ValueError("a bad grade"))
    other = Fold("steady", 1, COSTS.reads, COSTS.initial, COSTS.key, COSTS.fold)
    projecting = Projector(engine, [fold, other])
    assert projecting.catch_up() == END
    parked = place(engine, fold)
    assert parked.parked_at is not None
    assert parked.position == parked.parked_at < GRADES[40]
    assert parked.parked_error == f"ValueError: a bad grade (at position {GRADES[40]}, RewardGraded)"
    assert place(engine, other).position == END
    kept = digest_changes(replay(fold, golden_log()[: parked.position]))
    assert digest(engine, fold) == kept
    projecting.catch_up()
    assert place(engine, fold) == parked
    trouble["error"] = None
    projecting.catch_up()
    assert place(engine, fold) == parked
    projecting.rebuild(["stumbling"])
    assert (place(engine, fold).parked_at, place(engine, fold).position) == (None, END)
    assert digest(engine, fold) == digest(engine, COSTS)


def test_a_rebuild_that_fails_again_parks_again(engine: Engine) -> None:
    fold, _ = stumbling(GRADES[3], ValueError("still bad"))
    projecting = Projector(engine, [fold])
    projecting.catch_up()
    projecting.rebuild(["stumbling"])
    assert "still bad" in place(engine, fold).parked_error
    assert place(engine, fold).position == 0


def test_a_stop_in_the_middle_of_a_batch_leaves_rows_and_bookmark_as_they_were_and_the_next_try_applies_all_once(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(projector, "_BATCH", 30)
    fold, trouble = stumbling(GRADES[50], StoppedError())
    projecting = Projector(engine, [fold])
    with pytest.raises(StoppedError):
        projecting.catch_up()
    stopped = place(engine, fold)
    assert stopped.parked_at is None
    assert 0 < stopped.position < GRADES[50]
    assert digest(engine, fold) == digest_changes(replay(fold, golden_log()[: stopped.position]))
    trouble["error"] = None
    assert projecting.catch_up() == END
    assert digest(engine, fold) == digest(engine, COSTS)


def test_a_connection_that_is_cut_in_the_middle_of_a_batch_parks_nothing_and_doubles_nothing(
    engine: Engine, owner_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(projector, "_BATCH", 30)
    cuts = [GRADES[50]]

    def cutting(state: Any, row: EventRow) -> Any:
        if row.position in cuts:
            cuts.remove(row.position)
            cut(engine)
        return COSTS.fold(state, row)

    fold = Fold("cut", 1, COSTS.reads, COSTS.initial, COSTS.key, cutting)
    projecting = Projector(engine, [fold])
    with pytest.raises(OperationalError):
        projecting.catch_up()
    assert place(engine, fold).parked_at is None
    assert place(engine, fold).position < GRADES[50]
    projecting.catch_up()
    assert digest(engine, fold) == digest(engine, COSTS)


def cut(engine: Engine) -> None:
    """End the other connections of the application to its database."""
    with engine.connect() as connection:
        connection.execute(
            text(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE pid <> pg_backend_pid() AND datname = current_database() AND usename = current_user"
            )
        )


def test_a_lock_that_is_not_given_in_time_parks_nothing(database: Database, owner_engine: Engine) -> None:
    url = make_url(database.app_url).update_query_dict({"options": "-c lock_timeout=200"})
    hurried = open_engine(url.render_as_string(hide_password=False))
    try:
        PostgresStore(hurried).append([Append("prices", (sample("PriceBookSet", version=9),), "test")])
        projecting = Projector(hurried)
        with owner_engine.connect() as holding:
            holding.execute(text("LOCK TABLE fold_rows IN SHARE MODE"))
            with pytest.raises(OperationalError):
                projecting.catch_up()
            holding.rollback()
        assert {row.parked_at for row in bookmarks(hurried)} == {None}
        assert projecting.catch_up() == END + 1
        assert {row.position for row in bookmarks(hurried)} == {END + 1}
    finally:
        hurried.dispose()


def append_raw(engine: Engine, kind: str, payload: str, schema_version: int = 1) -> None:
    """Append what no present code would: an event of another version, or with another payload."""
    event = EncodedEvent(kind, schema_version, payload.encode(), bytes(32))
    key = f"{kind}-{schema_version}-{hash(payload)}"
    PostgresStore(engine).append_encoded([EncodedAppend("raw", None, key, bytes(32), "raw", None, (event,))])


def parked(engine: Engine) -> dict[str, str]:
    return {row.projection: row.parked_error for row in bookmarks(engine) if row.parked_at is not None}


def test_an_event_of_a_newer_version_parks_the_projections_that_read_it(engine: Engine) -> None:
    append_raw(engine, "PriceBookSet", '{"version": 7, "per_action": 1}', schema_version=2)
    Projector(engine).catch_up()
    assert set(parked(engine)) == {"advice_costs", "costs"}
    assert "schema version 2, newer than the 1" in parked(engine)["costs"]
    assert f"position {END + 1}" in parked(engine)["costs"]


def test_an_event_of_no_known_type_is_passed_over(engine: Engine) -> None:
    append_raw(engine, "RunTeleported", "{}")
    Projector(engine).catch_up()
    assert parked(engine) == {}


def test_a_parked_projection_says_so_when_it_is_read_and_still_answers_before_its_place(engine: Engine) -> None:
    append_raw(engine, "RewriteProposed", '{"rewrite": "w"}')
    projecting, store = Projector(engine), PostgresStore(engine)
    views = catch_up_views(projecting, engine, store)
    assert views.upto == END + 1
    with pytest.raises(ProjectionParked) as caught:
        views.find(REWRITES)
    assert caught.value.facts["projection"] == "rewrites"
    assert f"at position {END + 1}" in str(caught.value.facts["actual"])
    assert views.find(RUNS) != {}
    earlier = catch_up_views(projecting, engine, store, as_of=Position(END))
    assert earlier.find(REWRITES) != {}


def test_a_position_beyond_the_head_is_not_there_yet(engine: Engine) -> None:
    with pytest.raises(NotThereYet) as caught:
        catch_up_views(Projector(engine), engine, PostgresStore(engine), as_of=Position(END + 1))
    assert caught.value.facts == {"expected": END + 1, "actual": END}


class NewerBook(PriceBookSet):
    """A price book of the next version, in which an action is priced in thousands."""

    schema_version: ClassVar[int] = 2
    type: Literal["PriceBookSet"] = "PriceBookSet"


OLD_BOOK = sample("PriceBookSet", version=8, per_action=5).model_dump_json(exclude={"type"})


def test_rows_of_an_older_version_are_folded_as_the_present_one_and_rows_of_the_present_one_as_they_are(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(EVENT_TYPES, "PriceBookSet", NewerBook)
    carry = ("PriceBookSet", 1)
    monkeypatch.setitem(UPCASTERS, carry, lambda payload: {**payload, "per_action": payload["per_action"] * 1000})
    projecting, store = Projector(engine), PostgresStore(engine)
    append_raw(engine, "PriceBookSet", OLD_BOOK)
    carried = catch_up_views(projecting, engine, store).get(COSTS, PRICES)
    append_raw(engine, "PriceBookSet", OLD_BOOK.replace("8", "9"), schema_version=2)
    present = catch_up_views(projecting, engine, store).get(COSTS, PRICES)
    assert carried is not None
    assert present is not None
    assert carried.book is not None
    assert present.book is not None
    assert [(book.version, book.per_action) for book in (carried.book, present.book)] == [(8, 5000), (9, 5)]


def test_an_older_row_that_cannot_be_carried_on_parks_only_who_reads_it(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(EVENT_TYPES, "PriceBookSet", NewerBook)
    monkeypatch.setitem(UPCASTERS, ("PriceBookSet", 1), lambda _payload: {"version": "wrong"})
    append_raw(engine, "PriceBookSet", "{}")
    Projector(engine).catch_up()
    assert set(parked(engine)) == {"advice_costs", "costs"}
    assert "cannot be read" in parked(engine)["costs"]


def test_a_projector_that_is_killed_leaves_nothing_half_done(database: Database, engine: Engine) -> None:
    program = """
import sys
from sqlalchemy import text
from eventlog.database import open_engine
from projections import ALL
from projections.engine import projector
from projections.engine.projector import Projector
projector._BATCH = 5
engine = open_engine(sys.argv[1])
names = [fold.name for fold in ALL]
while True:
    Projector(engine).rebuild(names[::2])
    print("rebuilt", flush=True)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", program, database.app_url],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "rebuilt\n"
        os.kill(process.pid, signal.SIGKILL)
    Projector(engine).catch_up()
    log = golden_log()
    assert all(digest(engine, fold) == digest_changes(replay(fold, log)) for fold in ALL)
