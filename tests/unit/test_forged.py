"""Forged events are found by their actor, and what was disowned is left out of every fold."""

from __future__ import annotations

from dataclasses import replace

import pytest

from api.routes.roles import EVENTS
from eventlog.codec import decode
from eventlog.events import EVENT_TYPES, EventsDisowned
from eventlog.store import Position, Recorded
from projections import ALL
from projections.engine.projection import AnyFold, newest_states, replay
from projections.forged import FORGED, NEVER_FROM_A_TOKEN
from tests.golden.release import RELEASES
from tests.golden.test_golden_samples import golden_log, rows_of, sample

DISOWNED = frozenset(range(3, 652, 5))


def test_an_event_type_may_come_from_a_token_or_may_not() -> None:
    assert sorted((*EVENTS, *NEVER_FROM_A_TOKEN, "EventsDisowned")) == sorted(EVENT_TYPES)


@pytest.mark.parametrize("kind", EVENT_TYPES)
def test_an_event_is_forged_if_a_token_wrote_what_no_token_may_write(kind: str) -> None:
    event = replace(golden_log()[6], event=sample(kind), actor="api:theirs")
    found = newest_states(replay(FORGED, [event]))
    assert [(state.position, state.type, state.actor) for state in found.values()] == (
        [(7, kind, "api:theirs")] if kind in {*NEVER_FROM_A_TOKEN, "ModelCalled"} else []
    )
    assert not replay(FORGED, [replace(event, actor="controller")])


def test_a_model_call_by_a_token_is_forged_unless_its_run_is_from_outside() -> None:
    event = replace(golden_log()[6], event=sample("ModelCalled"), actor="api:theirs")
    found = {
        name: bool(replay(FORGED, [replace(event, stream=f"run/{name}")])) for name in ("ext-1", "s1__t", "next-1")
    }
    assert found == {"ext-1": False, "s1__t": True, "next-1": True}


def test_no_event_of_the_kept_logs_is_forged() -> None:
    released = [event for file in RELEASES.glob("*.ndjson.gz") for event in map(decode, rows_of(file))]
    assert not replay(FORGED, golden_log())
    assert not replay(FORGED, released)


def disowning(position: int, *positions: int) -> Recorded:
    event = EventsDisowned(positions=tuple(sorted(positions)), reason="forged")
    return replace(golden_log()[-1], position=Position(position), stream="disownings", event=event)


@pytest.mark.parametrize("fold", ALL, ids=lambda fold: str(fold.name))
def test_what_was_disowned_is_as_if_it_had_never_been(fold: AnyFold) -> None:
    log = golden_log()
    story = [*log, disowning(653, *(at for at in DISOWNED if at < 300)), disowning(654, *DISOWNED)]
    expected = replay(fold, [event for event in log if event.position not in DISOWNED])
    assert newest_states(replay(fold, story)) == newest_states(expected)
