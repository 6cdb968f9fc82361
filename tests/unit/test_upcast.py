from __future__ import annotations

from typing import ClassVar, Literal

import pytest

from eventlog.codec import decode_event
from eventlog.events import EVENT_TYPES, Event
from eventlog.upcast import UPCASTERS, Payload, Upcaster, upcast

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
    with pytest.raises(KeyError):
        upcast("LampLit", 0, 3, {}, STEPS)


@pytest.mark.usefixtures("lamps")
def test_an_old_event_is_read_as_its_present_class() -> None:
    event = decode_event("LampLit", 1, '{"place": "hall", "watts": 0}')
    assert event == LampLit(room="hall", watts=None)  # type: ignore[comparison-overlap]


def test_every_version_that_was_left_behind_has_its_step_and_no_step_leads_nowhere() -> None:
    wanted = {(kind, version) for kind, model in EVENT_TYPES.items() for version in range(1, model.schema_version)}
    assert set(UPCASTERS) == wanted
