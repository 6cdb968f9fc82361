"""Events told to a fold: what the tests of the folds share."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import msgspec

from eventlog.codec import encode_events
from eventlog.events import AnyEvent
from eventlog.store import Append, Position, Recorded
from projections.engine.projection import Fold, newest_states, replay
from tests.golden.test_golden_samples import sample

S = TypeVar("S", bound=msgspec.Struct)

DAWN = datetime(2026, 1, 1, tzinfo=UTC)
"""When the first told event happens; each of the others happens a minute after the one before it."""


def stream_of(event: AnyEvent) -> str:
    """Where an event is told: what is about a run, in the run's stream."""
    run = None if event.type.startswith(("Rewrite", "Piece")) else getattr(event, "run", None)
    return "told" if run is None else f"run/{run}"


def told(*events: AnyEvent, actor: str = "test") -> tuple[Recorded, ...]:
    """Events as a log would hold them, at positions 1, 2, 3 ..."""
    return tuple(
        Recorded(
            position=Position(index),
            stream=stream_of(event),
            version=index,
            at=DAWN + timedelta(minutes=index - 1),
            actor=actor,
            cause=None,
            digest=encode_events(Append("told", (event,), actor))[0].digest,
            event=event,
        )
        for index, event in enumerate(events, start=1)
    )


def states(fold: Fold[S], *events: AnyEvent) -> dict[str, S]:
    """What a fold says of each key after these events."""
    return newest_states(replay(fold, told(*events)))


def only(fold: Fold[S], *events: AnyEvent) -> S:
    """What a fold says of the only key there is."""
    (state,) = states(fold, *events).values()
    return state


def changed(event: AnyEvent, path: str, value: Any) -> Any:
    """An event with another value at a dotted path of its payload."""
    payload = event.model_dump(mode="json")
    *parents, last = path.split(".")
    place = payload
    for part in parents:
        place = place[part]
    place[last] = value
    return type(event).model_validate_json(json.dumps(payload))


def started(run: str = "r1", group: str = "g1", index: int = 0, **changes: Any) -> Any:
    """A run of a sweep; `changes` are values at paths, with `__` for the dot."""
    event = sample("RunStarted", run=run, arm=None, applied=())
    values = {"spec__group_id": group, "spec__sibling_index": index, "spec__candidate": None, **changes}
    for path, value in values.items():
        event = changed(event, path.replace("__", "."), value)
    return event


def graded(run: str = "r1", group: str = "g1", *, passed: bool = True, **changes: Any) -> Any:
    """An oracle's grade of a run."""
    score = 1_000_000 if passed else 0
    return sample("RewardGraded", **{"run": run, "group": group, "passed": passed, "score": score, **changes})
