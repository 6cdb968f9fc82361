"""Rows of older schema versions through the projector: what it extracts is what reading the whole event gives."""

from __future__ import annotations

from typing import ClassVar, Literal, cast

import pytest
from sqlalchemy import Engine

from eventlog.chain import GENESIS, verify_chain
from eventlog.events import EVENT_TYPES, AnyEvent, Event
from eventlog.postgres import PostgresStore
from eventlog.store import START, Append, Committed
from eventlog.upcast import UPCASTERS
from projections.engine.builds import bookmarks
from projections.engine.projection import EventRow, Fold, FoldState, replay
from projections.engine.projector import Projector
from projections.engine.views import PostgresViews


class LampV1(Event):
    """As it was first written."""

    type: Literal["LampLit"] = "LampLit"
    place: str
    watts: int


class LampV2(Event):
    """The place was called a room."""

    schema_version: ClassVar[int] = 2
    type: Literal["LampLit"] = "LampLit"
    room: str
    watts: int


class LampV3(Event):
    """Watts that are not known are null, no longer 0; and they lie deeper."""

    schema_version: ClassVar[int] = 3
    type: Literal["LampLit"] = "LampLit"
    room: str
    power: dict[str, int | None]


class Lamps(FoldState, frozen=True, kw_only=True):
    """How many lamps of a room were lit, and of what power those that are known."""

    lit: int = 0
    watts: int = 0


def lit(state: Lamps, row: EventRow) -> Lamps:
    return Lamps(lit=state.lit + 1, watts=state.watts + (row.maybe_number("power.watts") or 0))


def lamps(name: str) -> Fold[Lamps]:
    return Fold(
        name=name,
        version=1,
        reads={"LampLit": ("room", "power.watts")},
        initial=Lamps(),
        key=lambda row: row.text("room"),
        fold=lit,
    )


LIT: list[Event] = [
    LampV1(place="hall", watts=40),
    LampV1(place="attic", watts=0),
    LampV2(room="hall", watts=60),
    LampV2(room="hall", watts=0),
    LampV3(room="attic", power={"watts": 15}),
    LampV3(room="hall", power={"watts": None}),
]


@pytest.fixture
def store(empty_engine: Engine, monkeypatch: pytest.MonkeyPatch) -> PostgresStore:
    """A log of lamps, each written by the flywheel of its time, and then the flywheel of today."""
    written = PostgresStore(empty_engine)
    for event in LIT:
        monkeypatch.setitem(EVENT_TYPES, "LampLit", type(event))
        (outcome,) = written.append([Append("lamps", (cast("AnyEvent", event),), "test")])
        assert isinstance(outcome, Committed)
    monkeypatch.setitem(EVENT_TYPES, "LampLit", LampV3)
    monkeypatch.setitem(UPCASTERS, ("LampLit", 1), lambda old: {"room": old["place"], "watts": old["watts"]})
    monkeypatch.setitem(
        UPCASTERS, ("LampLit", 2), lambda old: {"room": old["room"], "power": {"watts": old["watts"] or None}}
    )
    return written


def test_the_store_keeps_each_version_as_it_was_written(store: PostgresStore) -> None:
    rows = list(verify_chain(store.read_stored(), after=START, previous=GENESIS))
    assert [row.schema_version for row in rows] == [1, 1, 2, 2, 3, 3]
    read = list(store.read())
    assert all(isinstance(recorded.event, LampV3) for recorded in read)
    assert [recorded.digest for recorded in read] == [row.digest for row in rows]
    assert list(store.read_stored()) == rows


def test_the_projector_makes_of_old_rows_what_a_replay_of_whole_events_makes(
    store: PostgresStore, empty_engine: Engine
) -> None:
    fold = lamps("lamps")
    upto = Projector(empty_engine, [fold]).catch_up()
    views = PostgresViews(empty_engine, store, upto)
    assert views.changes(fold) == replay(fold, store.read())
    assert views.find(fold) == {"attic": Lamps(lit=2, watts=15), "hall": Lamps(lit=4, watts=100)}


def test_folding_old_rows_leaves_them_as_they_were(store: PostgresStore, empty_engine: Engine) -> None:
    before = list(store.read_stored())
    Projector(empty_engine, [lamps("lamps")]).catch_up()
    Projector(empty_engine, [lamps("lamps")]).rebuild(["lamps"])
    assert list(store.read_stored()) == before
    assert list(verify_chain(store.read_stored(), after=START, previous=GENESIS)) == before


def test_a_step_that_is_missing_parks_the_projection_and_says_which(
    store: PostgresStore, empty_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(UPCASTERS, ("LampLit", 2))
    fold = lamps("lamps")
    Projector(empty_engine, [fold]).catch_up()
    (bookmark,) = bookmarks(empty_engine, [fold])
    assert "LampLit cannot be upcast from schema version 2 to 3" in bookmark.parked_error
