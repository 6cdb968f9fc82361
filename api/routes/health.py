"""Health of the service and its database, and how far each projection has read."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from projections.engine.builds import bookmarks, lags

from ..house import check_schema
from ..queries.health import HealthAnswer, ProjectionStanding, ReadyAnswer
from .as_of import HouseOf, mark, reply
from .errors import NotReady
from .problems import problem_of
from .schemas import answer_of

router = APIRouter(tags=["health"])

MOST_BEHIND = 100_000
"""Events that a projection may be behind: the first read folds as many in seconds."""


@router.get(
    "/healthz",
    summary="Is it up",
    responses={200: answer_of(HealthAnswer), 503: problem_of("The database does not answer.")},
)
def healthz(request: Request, house: HouseOf) -> Response:
    """The head of the log and the position of each projection; a parked one says where. Needs no token."""
    head = house.store.head()
    mark(request, head)
    standing = {each.projection: ProjectionStanding(each.position, each.parked_at) for each in bookmarks(house.engine)}
    return reply(HealthAnswer(head, standing))


@router.get(
    "/readyz",
    summary="Can it take requests",
    responses={
        200: answer_of(ReadyAnswer),
        503: problem_of("The database does not answer, lacks a migration, or a projection is parked or far behind."),
    },
)
def readyz(request: Request, house: HouseOf) -> Response:
    """200 where requests can be served, for a load balancer. Needs no token."""
    check_schema(house.engine)
    found = tuple(lags(house.engine))
    parked = [lag.projection for lag in found if lag.is_parked]
    if parked:
        raise NotReady(actual=f"parked: {', '.join(parked)}", way_out="`flywheel doctor` says at which event.")
    behind = max((lag.events for lag in found), default=0)
    if behind > MOST_BEHIND:
        way_out = "`flywheel replay` folds them."
        raise NotReady(
            actual=f"a projection is {behind} events behind, expected at most {MOST_BEHIND}", way_out=way_out
        )
    head = house.store.head()
    mark(request, head)
    return reply(ReadyAnswer(head, behind))
