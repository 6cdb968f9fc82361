from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from eventlog.chain import EXACT, GENESIS, canonical, digest, event_digest, link, microseconds, verify_chain
from eventlog.errors import BrokenChain, UnstorableNumber, UnstorableText
from eventlog.store import START, Position, Stored
from tests.golden.test_golden_samples import golden_rows

TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-EXACT, EXACT) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_canonical_bytes_are_those_of_rfc_8785(value: Any) -> None:
    assert canonical(value) == rfc8785.dumps(value)


def test_keys_sort_by_utf_16_code_units_even_beyond_the_basic_plane() -> None:
    value = {"\ue000": 1, "\U0001f600": 2, "a": 3}
    assert canonical(value) == rfc8785.dumps(value)
    assert list(json.loads(canonical(value))) == ["a", "\U0001f600", "\ue000"]


@given(VALUES)
def test_canonical_bytes_read_back_as_the_value_and_write_again_as_the_same_bytes(value: Any) -> None:
    assert json.loads(canonical(value)) == value
    assert canonical(json.loads(canonical(value))) == canonical(value)


@pytest.mark.parametrize("value", [1.5, 0.0, float("nan"), float("inf"), EXACT + 1, -EXACT - 1])
@pytest.mark.parametrize("place", ["{}", '{{"a": {}}}', '[1, {{"b": [{}]}}]'])
def test_numbers_that_another_reader_could_lose_are_refused_wherever_they_stand(value: float, place: str) -> None:
    with pytest.raises(UnstorableNumber):
        canonical(json.loads(place.format(json.dumps(value))))


@pytest.mark.parametrize("value", ["\0", "a\0b", "\ud800", "x\udfff", {"\0": 1}, {"\ud800": 1}, [["\0"]]])
def test_text_that_no_database_keeps_is_refused_wherever_it_stands(value: Any) -> None:
    with pytest.raises(UnstorableText):
        canonical(value)


def test_a_refusal_says_where() -> None:
    with pytest.raises(UnstorableNumber, match=r"\$\.a\[1\]\.b"):
        canonical({"a": [0, {"b": 1.5}]})


def test_the_whole_range_of_exact_integers_is_kept() -> None:
    assert canonical([EXACT, -EXACT, True, False, None]) == b"[9007199254740991,-9007199254740991,true,false,null]"


def test_microseconds_are_exact_in_any_time_zone() -> None:
    at = datetime(2026, 11, 20, 22, 3, 4, 999_999, tzinfo=UTC)
    assert microseconds(at) == microseconds(at.astimezone(timezone(timedelta(hours=5, minutes=45))))
    assert microseconds(at) % 1_000_000 == 999_999
    assert microseconds(datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)) == -1_000_000


def test_the_digest_covers_what_was_said_by_whom_and_because_of_what() -> None:
    first = event_digest("T", 1, {"a": 1}, "actor", None)
    others = [
        event_digest("U", 1, {"a": 1}, "actor", None),
        event_digest("T", 2, {"a": 1}, "actor", None),
        event_digest("T", 1, {"a": 2}, "actor", None),
        event_digest("T", 1, {"a": 1}, "another", None),
        event_digest("T", 1, {"a": 1}, "actor", Position(1)),
    ]
    assert len({first, *others}) == 6
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})


def sound() -> list[Stored]:
    return list(golden_rows()[:40])


def broken_at(rows: list[Stored]) -> int:
    passed: list[Stored] = []
    with pytest.raises(BrokenChain) as caught:
        passed.extend(verify_chain(iter(rows), after=START, previous=GENESIS))
    return int(str(caught.value.facts["position"]))


def test_a_sound_log_passes_through_unchanged_from_any_position() -> None:
    rows = sound()
    assert list(verify_chain(rows, after=START, previous=GENESIS)) == rows
    assert list(verify_chain(rows[7:], after=Position(7), previous=rows[6].chain)) == rows[7:]


@pytest.mark.parametrize(
    "change",
    [
        {"payload": '{"changed": 1}'},
        {"payload": '{"changed": 1.5}'},
        {"payload": '{"changed": "\\u0000"}'},
        {"stream": "another"},
        {"stream": "\ud800"},
        {"actor": "another"},
        {"actor": "\ud800"},
        {"cause": Position(3)},
        {"version": 99},
        {"version": -1},
        {"type": "RunMissing"},
        {"schema_version": 2},
        {"at": datetime(2020, 1, 1, tzinfo=UTC)},
        {"digest": bytes(32)},
        {"chain": bytes(32)},
        {"position": Position(30)},
    ],
    ids=str,
)
def test_a_changed_row_is_found_where_it_stands(change: dict[str, Any]) -> None:
    rows = sound()
    rows[9] = replace(rows[9], **change)
    assert broken_at(rows) == 10


def test_a_change_whose_digest_was_made_to_match_breaks_the_chain_there() -> None:
    rows = sound()
    forged = event_digest(rows[9].type, rows[9].schema_version, {"forged": True}, rows[9].actor, rows[9].cause)
    rows[9] = replace(rows[9], payload='{"forged": true}', digest=forged)
    assert broken_at(rows) == 10


def test_a_forged_link_breaks_the_chain_at_the_next_row() -> None:
    rows = sound()
    forged = event_digest(rows[9].type, rows[9].schema_version, {"forged": True}, rows[9].actor, rows[9].cause)
    rows[9] = replace(rows[9], payload='{"forged": true}', digest=forged)
    rows[9] = replace(rows[9], chain=link(rows[8].chain, rows[9]))
    assert broken_at(rows) == 11


def test_a_removed_row_is_found() -> None:
    rows = sound()
    del rows[9]
    assert broken_at(rows) == 10


def test_a_removed_row_is_found_when_the_rest_moves_up() -> None:
    rows = sound()
    del rows[9]
    assert broken_at([replace(row, position=Position(index)) for index, row in enumerate(rows, start=1)]) == 10


def test_a_swapped_pair_is_found_with_and_without_its_positions() -> None:
    rows = sound()
    rows[9], rows[10] = rows[10], rows[9]
    assert broken_at(rows) == 10
    rows[9], rows[10] = replace(rows[9], position=Position(10)), replace(rows[10], position=Position(11))
    assert broken_at(rows) == 10


def test_a_repeated_row_is_found() -> None:
    rows = sound()
    assert broken_at([*rows[:10], rows[9], *rows[10:]]) == 11


def test_another_beginning_is_found_at_the_first_row() -> None:
    with pytest.raises(BrokenChain) as caught:
        list(verify_chain(sound(), after=START, previous=bytes([1]) * 32))
    assert caught.value.facts["position"] == 1
