from __future__ import annotations

import copy
import itertools
import json
from dataclasses import replace
from typing import ClassVar, Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from eventlog.chain import GENESIS, canonical, event_digest, link, verify_chain
from eventlog.codec import decode, decode_event, encode_events
from eventlog.errors import CorruptRow, UpcasterMissing, UpcastFailed
from eventlog.events import EVENT_TYPES, Event
from eventlog.store import START, Append, Position, Stored
from eventlog.upcast import UPCASTERS, Payload, Upcaster, upcast
from tests.golden.test_golden_samples import SAMPLES, golden_rows, sample

STEPS: dict[tuple[str, int], Upcaster] = {
    ("LampLit", 1): lambda payload: {"room": payload["place"], "watts": payload["watts"]},
    ("LampLit", 2): lambda payload: {**payload, "watts": None if payload["watts"] == 0 else payload["watts"]},
}


class LampLit(Event):
    """An event that went through three versions."""

    schema_version: ClassVar[int] = 3
    type: Literal["LampLit"] = "LampLit"
    room: str
    watts: int | None


@pytest.fixture
def lamps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A vocabulary that knows lamps, and how older lamps were written."""
    monkeypatch.setitem(EVENT_TYPES, "LampLit", LampLit)
    for step, carry in STEPS.items():
        monkeypatch.setitem(UPCASTERS, step, carry)


@pytest.mark.parametrize(
    ("version", "payload"),
    [
        (1, {"place": "hall", "watts": 0}),
        (2, {"room": "hall", "watts": 0}),
        (3, {"room": "hall", "watts": None}),
    ],
)
def test_a_payload_goes_through_each_step_from_its_own_version_on(version: int, payload: Payload) -> None:
    assert upcast("LampLit", version, 3, payload, STEPS) == {"room": "hall", "watts": None}


def test_a_payload_may_stop_on_the_way() -> None:
    assert upcast("LampLit", 1, 2, {"place": "hall", "watts": 0}, STEPS) == {"room": "hall", "watts": 0}


def test_what_is_carried_on_is_not_what_was_kept() -> None:
    kept: Payload = {"place": "hall", "watts": 40}
    upcast("LampLit", 1, 3, kept, STEPS)
    assert kept == {"place": "hall", "watts": 40}


def test_a_missing_step_is_a_bug_that_shows() -> None:
    with pytest.raises(UpcasterMissing) as caught:
        upcast("LampLit", 0, 3, {}, STEPS)
    assert (caught.value.facts["type"], caught.value.facts["actual"]) == ("LampLit", 0)


def test_a_payload_that_is_not_of_its_version_is_named() -> None:
    with pytest.raises(UpcastFailed, match="schema version 1"):
        upcast("LampLit", 1, 3, {"room": "hall"}, STEPS)


@pytest.mark.usefixtures("lamps")
@pytest.mark.parametrize("payload", ["{}", "[]", '{"place": "hall", "watts": "forty"}', '{"place": 3, "watts": 0}'])
def test_an_old_row_that_cannot_be_carried_on_is_corrupt_and_its_position_is_told(payload: str) -> None:
    row = replace(golden_rows()[6], type="LampLit", schema_version=1, payload=payload)
    with pytest.raises(CorruptRow, match="position 7"):
        decode(row)


def test_a_version_that_was_raised_without_a_step_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    model = EVENT_TYPES["RewriteWon"]
    payload = canonical(sample("RewriteWon").model_dump(mode="json", exclude={"type"})).decode()
    monkeypatch.setattr(model, "schema_version", model.schema_version + 1)
    with pytest.raises(UpcasterMissing):
        decode_event("RewriteWon", model.schema_version - 1, payload)
    with pytest.raises(AssertionError):
        test_every_version_that_was_left_behind_has_its_step_and_no_step_leads_nowhere()


@pytest.mark.usefixtures("lamps")
def test_an_old_event_is_read_as_its_present_class() -> None:
    event = decode_event("LampLit", 1, '{"place": "hall", "watts": 0}')
    assert event == LampLit(room="hall", watts=None)  # type: ignore[comparison-overlap]


def test_every_version_that_was_left_behind_has_its_step_and_no_step_leads_nowhere() -> None:
    wanted = {(kind, version) for kind, model in EVENT_TYPES.items() for version in range(1, model.schema_version)}
    assert set(UPCASTERS) == wanted


WORDS = st.text("abcdef", min_size=1, max_size=2)
PAYLOADS = st.dictionaries(WORDS, st.integers(-9, 9) | st.lists(st.integers(0, 3), max_size=2), max_size=4)


def renamed(old: str, new: str) -> Upcaster:
    return lambda payload: {new if name == old else name: value for name, value in payload.items()}


def added(name: str, value: int) -> Upcaster:
    return lambda payload: {**payload, name: value}


def dropped(name: str) -> Upcaster:
    return lambda payload: {key: value for key, value in payload.items() if key != name}


ANY_STEP = st.one_of(
    st.builds(renamed, WORDS, WORDS), st.builds(added, WORDS, st.integers(0, 9)), st.builds(dropped, WORDS)
)


@given(st.lists(ANY_STEP, max_size=6), PAYLOADS, st.data())
def test_steps_compose_wherever_the_way_is_cut(carries: list[Upcaster], payload: Payload, data: st.DataObject) -> None:
    steps = {("LampLit", version): carry for version, carry in enumerate(carries, start=1)}
    last = len(carries) + 1
    middle = data.draw(st.integers(1, last))
    kept = copy.deepcopy(payload)
    whole = upcast("LampLit", 1, last, payload, steps)
    assert whole == upcast("LampLit", middle, last, upcast("LampLit", 1, middle, payload, steps), steps)
    by_hand = payload
    for carry in carries:
        by_hand = carry(by_hand)
    assert whole == by_hand
    assert payload == kept


OLD = st.one_of(
    st.tuples(st.just(1), st.fixed_dictionaries({"place": WORDS, "watts": st.integers(0, 2)})),
    st.tuples(st.just(2), st.fixed_dictionaries({"room": WORDS, "watts": st.integers(0, 2)})),
    st.tuples(st.just(3), st.fixed_dictionaries({"room": WORDS, "watts": st.none() | st.integers(1, 2)})),
)


def written(versions: list[tuple[int, Payload]]) -> list[Stored]:
    """A log of lamps as it was written, at whatever version each was then."""
    rows: list[Stored] = []
    for position, (version, payload) in enumerate(versions, start=1):
        content = event_digest("LampLit", version, payload, "test", None)
        at, cause = golden_rows()[0].at, None
        text = canonical(payload).decode()
        row = Stored(Position(position), "lamps", position, at, "test", cause, "LampLit", version, text, content, b"")
        rows.append(replace(row, chain=link(rows[-1].chain if rows else GENESIS, row)))
    return rows


@pytest.mark.usefixtures("lamps")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(OLD, max_size=6))
def test_reading_old_events_leaves_rows_digests_and_chain_as_they_were(versions: list[tuple[int, Payload]]) -> None:
    rows = written(versions)
    read = [decode(row) for row in rows]
    assert [event.digest for event in read] == [row.digest for row in rows]
    assert rows == written(versions)
    assert list(verify_chain(rows, after=START, previous=GENESIS)) == rows
    for event, (_, payload) in zip(read, versions, strict=True):
        assert isinstance(event.event, LampLit)
        assert event.event.room == payload.get("room", payload.get("place"))
        assert event.event.watts == (payload["watts"] or None)


NUMBERS = st.integers(-(10**9), 10**9)
GRADED_THEN = st.fixed_dictionaries(
    {
        "run": WORDS,
        "group": WORDS,
        "channel": st.just("oracle"),
        "version": WORDS,
        "score": st.integers(0, 1_000_000),
        "passed": st.booleans(),
        "reasons": st.lists(WORDS, max_size=2),
        "terms": st.fixed_dictionaries(
            {"score": st.integers(0, 1_000_000), "lambda_per_dollar": NUMBERS, "penalty": st.none() | NUMBERS}
        ),
        "prices": st.integers(0, 9),
        "cost": st.none() | st.integers(0, 10**9),
        "value": st.none() | NUMBERS,
    }
)
"""Rewards as they were written before they could be shaped."""


@given(GRADED_THEN)
def test_an_older_reward_keeps_all_it_said_and_says_that_it_was_not_shaped(payload: Payload) -> None:
    event = decode_event("RewardGraded", 1, json.dumps(payload)).model_dump(mode="json", exclude={"type"})
    added = {"shaping": None, "shaped": None, "again": False}
    terms = {**payload["terms"], "process": None, "progress": None}
    assert event == {**payload, **added, "terms": terms}
    there = encode_events(Append("s", (decode_event("RewardGraded", 1, json.dumps(payload)),), "test"))[0]
    again = decode_event(there.type, there.schema_version, there.payload.decode())
    assert again.model_dump(mode="json", exclude={"type"}) == event


def impurities(step: Upcaster, payload: Payload) -> list[str]:
    """What a step does that a pure function does not."""
    given_, first = copy.deepcopy(payload), step(copy.deepcopy(payload))
    found = [] if step(given_) == first else ["another answer the second time"]
    return found if given_ == payload else [*found, "a change of what it was given"]


def test_every_step_that_ships_is_pure_over_the_samples_of_its_version() -> None:
    for (kind, version), step in UPCASTERS.items():
        kept = json.loads((SAMPLES / f"{kind}.v{version}.json").read_text("utf-8"))
        assert impurities(step, kept["payload"]) == [], (kind, version)


def test_an_impure_step_would_be_found() -> None:
    numbers = itertools.count()
    assert impurities(lambda payload: {**payload, "n": next(numbers)}, {}) == ["another answer the second time"]

    def in_place(payload: Payload) -> Payload:
        payload["n"] = 1
        return payload

    assert impurities(in_place, {}) == ["a change of what it was given"]
