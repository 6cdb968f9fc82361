"""What every event store keeps: the same tests for the list and for the table."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Engine

from eventlog.chain import EXACT, GENESIS, verify_chain
from eventlog.errors import UnstorableNumber, UnstorableText
from eventlog.events import EVENT_TYPES, AnyEvent, MemoryQuarantined
from eventlog.memory import MemoryStore
from eventlog.postgres import PostgresStore
from eventlog.store import (
    START,
    Append,
    Committed,
    Conflict,
    EventStore,
    KeyReused,
    Outcome,
    Position,
    Recorded,
    Rejected,
    Repeated,
)
from tests.golden.test_golden_samples import golden_log, golden_rows, sample

WON, LOST = sample("RewriteWon"), sample("RewriteLost")


def clock() -> Callable[[], datetime]:
    """A clock that goes back now and then."""
    ticks = itertools.count()
    return lambda: datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=(next(ticks) * 7) % 50)


@pytest.fixture(params=["memory", "postgres"])
def store(request: pytest.FixtureRequest) -> EventStore:
    """An empty store of either kind."""
    if request.param == "memory":
        return MemoryStore(clock())
    engine: Engine = request.getfixturevalue("empty_engine")
    return PostgresStore(engine)


def put(store: EventStore, stream: str = "s", *events: AnyEvent, **changes: Any) -> Outcome:
    (outcome,) = store.append([Append(stream, events or (WON,), "test", **changes)])
    return outcome


def together(store: EventStore, group: Sequence[Append]) -> list[Outcome]:
    result = store.append_together(group)
    assert not isinstance(result, Rejected)
    return list(result)


def positions(recorded: Iterator[Recorded]) -> list[int]:
    return [event.position for event in recorded]


def assert_whole(store: EventStore) -> None:
    """The log is gapless and linked, its streams count from 1, its clock never goes back."""
    rows = list(verify_chain(store.read_stored(), after=START, previous=GENESIS))
    assert len(rows) == store.head()
    versions: dict[str, int] = {}
    for row in rows:
        assert row.version == versions.get(row.stream, 0) + 1
        versions[row.stream] = row.version
    assert all(before.at <= after.at for before, after in itertools.pairwise(rows))


def test_an_empty_log_stands_at_the_start(store: EventStore) -> None:
    assert (store.head(), list(store.read()), list(store.read_stored())) == (START, [], [])
    assert list(store.append([])) == []
    assert store.head() == START


def test_committed_events_take_the_next_positions_and_come_back_as_they_were(store: EventStore) -> None:
    assert put(store, "a", WON, LOST) == Committed(Position(1), Position(2), 2)
    assert put(store, "b", WON, cause=Position(2)) == Committed(Position(3), Position(3), 1)
    assert put(store, "a", LOST) == Committed(Position(4), Position(4), 3)
    found = list(store.read())
    assert [(r.position, r.stream, r.version, r.cause, r.event) for r in found] == [
        (1, "a", 1, None, WON),
        (2, "a", 2, None, LOST),
        (3, "b", 1, 2, WON),
        (4, "a", 3, None, LOST),
    ]
    assert {r.actor for r in found} == {"test"}
    assert all(r.at.tzinfo is not None for r in found)
    assert_whole(store)


def test_an_expected_version_is_met_or_nothing_is_written(store: EventStore) -> None:
    assert put(store, expect=0) == Committed(Position(1), Position(1), 1)
    assert put(store, expect=0) == Conflict("s", 0, 1)
    assert put(store, expect=2) == Conflict("s", 2, 1)
    assert put(store, "new", expect=1) == Conflict("new", 1, 0)
    assert put(store, expect=1) == Committed(Position(2), Position(2), 2)
    assert put(store, expect=None) == Committed(Position(3), Position(3), 3)
    assert store.head() == 3
    assert_whole(store)


def test_a_key_seen_with_the_same_content_gives_its_first_positions(store: EventStore) -> None:
    put(store, "s", WON, LOST, key="k")
    put(store, "s", LOST)
    assert put(store, "s", WON, LOST, key="k") == Repeated(Position(1), Position(2))
    assert put(store, "s", WON, LOST, key="k", expect=0) == Repeated(Position(1), Position(2))
    assert put(store, "s", WON, LOST, key="k", cause=Position(3)) == Repeated(Position(1), Position(2))
    assert store.head() == 3


def test_a_key_seen_with_other_content_is_refused_with_the_first_positions(store: EventStore) -> None:
    put(store, "s", WON, key="k")
    for stream, events in (("s", (LOST,)), ("other", (WON,)), ("s", (WON, WON))):
        assert put(store, stream, *events, key="k") == KeyReused("k", Position(1), Position(1))
    assert store.head() == 1


def test_a_refused_append_does_not_use_up_its_key(store: EventStore) -> None:
    assert put(store, expect=5, key="k") == Conflict("s", 5, 0)
    assert put(store, expect=0, key="k") == Committed(Position(1), Position(1), 1)


def test_keys_and_versions_given_out_earlier_in_the_same_batch_count(store: EventStore) -> None:
    outcomes = store.append(
        [
            Append("s", (WON,), "test", expect=0, key="k"),
            Append("s", (WON,), "test", expect=0, key="k"),
            Append("s", (LOST,), "test", expect=1, key="k"),
            Append("s", (LOST,), "test", expect=0),
            Append("s", (LOST, WON), "test", expect=1),
            Append("t", (LOST,), "test", expect=0),
            Append("s", (LOST,), "test", expect=3),
        ]
    )
    assert list(outcomes) == [
        Committed(Position(1), Position(1), 1),
        Repeated(Position(1), Position(1)),
        KeyReused("k", Position(1), Position(1)),
        Conflict("s", 0, 1),
        Committed(Position(2), Position(3), 3),
        Committed(Position(4), Position(4), 1),
        Committed(Position(5), Position(5), 4),
    ]
    assert store.head() == 5
    assert_whole(store)


def test_a_batch_of_refusals_alone_writes_nothing(store: EventStore) -> None:
    outcomes = store.append([Append("s", (WON,), "test", expect=n) for n in (1, 2, 3)])
    assert [type(outcome) for outcome in outcomes] == [Conflict] * 3
    assert store.head() == START


@pytest.mark.parametrize("amount", [1, 60])
def test_a_group_is_written_as_a_whole_and_again_it_is_repeated(store: EventStore, amount: int) -> None:
    group = [
        Append("a", (WON,) * amount, "test", expect=0, key="a"),
        Append("b", (LOST,) * amount, "test", key="b"),
        Append("b", (WON,), "test", expect=amount, key="c"),
    ]
    whole = 2 * amount + 1
    assert together(store, group) == [
        Committed(Position(1), Position(amount), amount),
        Committed(Position(amount + 1), Position(2 * amount), amount),
        Committed(Position(whole), Position(whole), amount + 1),
    ]
    assert together(store, [*group, Append("d", (WON,), "test", key="d")]) == [
        Repeated(Position(1), Position(amount)),
        Repeated(Position(amount + 1), Position(2 * amount)),
        Repeated(Position(whole), Position(whole)),
        Committed(Position(whole + 1), Position(whole + 1), 1),
    ]
    assert_whole(store)


@pytest.mark.parametrize("amount", [1, 120])
def test_a_group_of_which_one_is_refused_writes_nothing_and_uses_up_no_key(store: EventStore, amount: int) -> None:
    put(store, "s", WON, key="k")
    fresh = Append("new", (WON,) * amount, "test", expect=0, key="fresh")
    outdated, misused = Append("s", (WON,), "test", expect=0), Append("s", (LOST,), "test", key="k")
    same = Append("s", (WON,), "test", key="k")
    conflict, reused = Conflict("s", 0, 1), KeyReused("k", Position(1), Position(1))
    assert store.append_together([fresh, outdated]) == Rejected((None, conflict))
    assert store.append_together([misused, fresh, same]) == Rejected((reused, None, None))
    assert store.append_together([outdated, fresh, misused]) == Rejected((conflict, None, reused))
    assert store.append_together([outdated]) == Rejected((conflict,))
    assert store.head() == 1
    last = Position(amount + 1)
    assert together(store, [fresh]) == [Committed(Position(2), last, amount)]
    assert together(store, []) == []
    assert_whole(store)


UNSTORABLE: list[tuple[Callable[[], Append], type[Exception]]] = [
    (lambda: Append("a\0", (WON,), "test"), UnstorableText),
    (lambda: Append("a\ud800", (WON,), "test"), UnstorableText),
    (lambda: Append("s", (WON,), "a\0"), UnstorableText),
    (lambda: Append("s", (WON,), "test", key="a\0"), UnstorableText),
    (lambda: Append("s", (WON,), "test", key="\udfff"), UnstorableText),
    (lambda: Append("s", (quarantined("\0"),), "test"), UnstorableText),
    (lambda: Append("s", (quarantined("\ud800"),), "test"), UnstorableText),
    (lambda: Append("s", (WON,), "test", cause=Position(EXACT + 1)), UnstorableNumber),
]


def quarantined(reason: str) -> AnyEvent:
    return MemoryQuarantined(piece="p", kind="rewrite", restored=0, reason=reason)


def test_what_cannot_be_stored_is_refused_before_anything_is_written(store: EventStore) -> None:
    for made, error in UNSTORABLE:
        with pytest.raises(error):
            store.append([Append("s", (WON,), "test"), made()])
        with pytest.raises(error):
            store.append_together([Append("s", (WON,), "test"), made()])
        assert store.head() == START
    assert put(store) == Committed(Position(1), Position(1), 1)


def test_an_append_of_no_event_is_refused(store: EventStore) -> None:
    with pytest.raises(ValueError, match="carries no event"):
        store.append([Append("s", (), "test")])
    assert store.head() == START


@pytest.fixture
def filled(store: EventStore) -> EventStore:
    """Sixty events of two types, twenty on each of three streams."""
    events = [Append(f"s{n % 3}", (WON if n % 2 else LOST,), "test") for n in range(60)]
    store.append(events)
    return store


BOUNDS: tuple[tuple[dict[str, Any], list[int]], ...] = (
    ({}, list(range(1, 61))),
    ({"after": 10}, list(range(11, 61))),
    ({"upto": 10}, list(range(1, 11))),
    ({"after": 10, "upto": 12}, list(range(11, 13))),
    ({"after": 10, "upto": 10}, []),
    ({"after": 12, "upto": 10}, []),
    ({"after": 60}, []),
    ({"after": 99}, []),
    ({"upto": 99}, list(range(1, 61))),
    ({"upto": 0}, []),
)


def test_a_read_gives_what_lies_after_one_position_and_up_to_another(filled: EventStore) -> None:
    for bounds, found in BOUNDS:
        assert positions(filled.read(**bounds)) == found
        assert [row.position for row in filled.read_stored(**bounds)] == found


def test_a_read_gives_one_stream_or_some_types_or_both(filled: EventStore) -> None:
    assert positions(filled.read(stream="s1")) == list(range(2, 61, 3))
    assert positions(filled.read(stream="s1", after=Position(5), upto=Position(11))) == [8, 11]
    assert positions(filled.read(types=["RewriteWon"])) == list(range(2, 61, 2))
    assert positions(filled.read(types=["RewriteWon", "RewriteLost"], upto=Position(4))) == [1, 2, 3, 4]
    assert positions(filled.read(stream="s1", types=["RewriteWon"])) == list(range(2, 61, 6))
    assert positions(filled.read(stream="none")) == positions(filled.read(types=["RunMissing"])) == []
    assert positions(filled.read(types=[])) == []


def test_a_read_gives_what_one_actor_wrote_of_all_of_a_stream_or_of_some_types(store: EventStore) -> None:
    store.append([Append(f"s{n % 3}", (WON if n % 2 else LOST,), "one" if n % 5 else "other") for n in range(60)])
    assert positions(store.read(actor="other")) == list(range(1, 61, 5))
    assert positions(store.read(actor="other", after=Position(5), upto=Position(16))) == [6, 11, 16]
    assert positions(store.read(actor="other", stream="s1")) == list(range(11, 61, 15))
    assert positions(store.read(actor="other", types=["RewriteWon"])) == list(range(6, 61, 10))
    assert positions(store.read(actor="other", types=["RewriteWon", "RewriteLost"])) == list(range(1, 61, 5))
    assert positions(store.read(actor="other", stream="s1", types=["RewriteWon"])) == [26, 56]
    assert positions(store.read(actor="nobody")) == positions(store.read(actor="other", types=[])) == []


def test_a_read_ends_at_the_head_it_began_at(filled: EventStore) -> None:
    seen = []
    for recorded in filled.read():
        seen.append(recorded.position)
        put(filled)
    assert seen == list(range(1, 61))
    assert filled.head() == 120


def test_time_never_goes_back_and_a_batch_may_share_one_moment(store: EventStore) -> None:
    for _ in range(20):
        store.append([Append("s", (WON, LOST), "test"), Append("t", (WON,), "test")])
    assert_whole(store)


def test_a_thousand_events_go_in_as_one_append(store: EventStore) -> None:
    assert put(store, "s", *[WON] * 1000) == Committed(Position(1), Position(1000), 1000)
    assert_whole(store)


def test_a_thousand_requests_go_in_as_one_batch(store: EventStore) -> None:
    outcomes = store.append([Append(f"s{n}", (WON,), "test", expect=0) for n in range(1000)])
    assert [outcome for outcome in outcomes if not isinstance(outcome, Committed)] == []
    assert len(positions(store.read())) == 1000
    assert_whole(store)


def test_more_than_a_megabyte_of_text_comes_back_as_it_was(store: EventStore) -> None:
    event = quarantined('the reason is long: äöü \U0001f600 \\ " \n ' * 40_000)
    put(store, "s", event)
    (recorded,) = store.read()
    assert recorded.event == event
    assert_whole(store)


def test_the_golden_log_can_be_appended_again_event_by_event(store: EventStore) -> None:
    """An event of an older version is appended as what it is now, and so with another digest."""
    store.append([Append(r.stream, (r.event,), r.actor, cause=r.cause) for r in golden_log()])
    again = list(store.read())
    assert [(r.stream, r.version, r.event) for r in again] == [(r.stream, r.version, r.event) for r in golden_log()]
    as_now = [row.schema_version == EVENT_TYPES[row.type].schema_version for row in golden_rows()]
    assert 0 < sum(as_now) < len(as_now)
    assert [r.digest for r, is_so in zip(again, as_now, strict=True) if is_so] == [
        row.digest for row, is_so in zip(golden_rows(), as_now, strict=True) if is_so
    ]


def test_what_was_disowned_is_known_as_of_any_position(store: EventStore) -> None:
    put(store, "a", WON, LOST)
    put(store, "disownings", sample("EventsDisowned", positions=[1]))
    put(store, "disownings", sample("EventsDisowned", positions=[2, 3]))
    assert [store.disowned_positions(Position(upto)) for upto in (2, 3, 4)] == [set(), {1}, {1, 2, 3}]
    assert store.disowned_positions() == {1, 2, 3}
