"""What may come from outside: every event type is listed for a role, or refused to every role."""

from __future__ import annotations

import re
from typing import Any, Literal, cast

import pytest

from api.app import create_app
from api.house import House
from api.routes.errors import ForeignStream, ReservedEvent, RoleTooLow
from api.routes.outside import check_foreign_events
from api.routes.roles import EVENTS, RANKS, ROUTES, least_role
from eventlog.events import EVENT_TYPES, AnyEvent, Event
from projections.access import TokenState
from tests.golden.test_golden_samples import sample

TAKEN = {
    "RunStarted": "run/ext-1",
    "InstanceReset": "run/ext-1",
    "StepTaken": "run/ext-1",
    "ModelCalled": "run/ext-1",
    "RunFinished": "run/ext-1",
    "RunMissing": "run/ext-1",
    "RewardGraded": "run/ext-1",
    "PriceBookSet": "prices",
}
"""What may come from outside, each with the stream it belongs to."""


class LampLit(Event):
    """An event type that nobody has listed."""

    type: Literal["LampLit"] = "LampLit"


def token(role: str) -> TokenState:
    return TokenState(token="theirs", role=role)


def from_outside(kind: str) -> Any:
    """The sample of an event type, under the names of a run from outside where it has any."""
    found = sample(kind)
    names: dict[str, Any] = {"run": "ext-1", "group": "ext-g"}
    if kind == "RunStarted":
        spec = found.model_dump(mode="json")["spec"]
        names |= {"arm": None, "spec": {**spec, "spec_id": "ext-1", "group_id": "ext-g", "sweep": "ext-s"}}
    return sample(kind, **{name: value for name, value in names.items() if name in type(found).model_fields})


def refusal(role: str, stream: str, event: AnyEvent) -> type[Exception] | None:
    try:
        check_foreign_events(token(role), stream, (event,))
    except (ReservedEvent, RoleTooLow, ForeignStream) as error:
        return type(error)
    return None


@pytest.mark.parametrize("kind", EVENT_TYPES)
def test_an_event_type_is_listed_for_a_role_or_refused_to_every_role(kind: str) -> None:
    event = from_outside(kind)
    for role in RANKS:
        may = kind in TAKEN and RANKS.index(role) >= RANKS.index("operate" if kind == "PriceBookSet" else "ingest")
        expected = None if may else RoleTooLow if kind in TAKEN else ReservedEvent
        assert refusal(role, TAKEN.get(kind, "prices"), event) is expected, role


def test_what_is_listed_is_what_belongs_to_runs_from_outside_and_prices() -> None:
    assert EVENTS.keys() == TAKEN.keys()


def test_a_new_event_type_is_refused_until_someone_lists_it() -> None:
    assert refusal("admin", "prices", cast("AnyEvent", LampLit())) is ReservedEvent


def test_a_listed_type_without_a_stream_of_its_own_is_still_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("api.routes.outside.EVENTS", {"LampLit": "ingest"})
    assert refusal("admin", "prices", cast("AnyEvent", LampLit())) is ReservedEvent


@pytest.mark.parametrize("kind", TAKEN)
def test_an_event_from_outside_goes_to_the_stream_it_belongs_to_alone(kind: str) -> None:
    for stream in {"run/ext-2", "prices", "champion", "run/ext-1"} - {TAKEN[kind]}:
        assert refusal("admin", stream, from_outside(kind)) is ForeignStream


def test_every_route_that_writes_is_listed_with_the_least_role_that_may_call_it() -> None:
    paths = create_app(cast("House", None)).openapi()["paths"]
    writing = {
        (method.upper(), re.sub(r"\{[^}]*\}", "*", path))
        for path, methods in paths.items()
        for method in methods
        if method != "get"
    }
    assert writing == {(method, path) for method, path in ROUTES if method != "GET"}
    assert least_role("DELETE", "/v1/runs") == "admin"
    assert least_role("POST", "/v1/runs/ext-1/reward") == "ingest"
