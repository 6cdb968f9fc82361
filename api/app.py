"""The REST interface: one application over one house."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Depends, FastAPI

from projections.memories import LOOSE

from .house import House
from .routes import (
    benchmarks,
    blobs,
    champion,
    checkpoints,
    costs,
    courses,
    datasets,
    difference,
    environments,
    events,
    failures,
    health,
    metrics,
    outcomes,
    pieces,
    problems,
    rewrites,
    runs,
    slices,
    substrates,
    taint,
    verdicts,
)
from .routes.access import caller
from .routes.admission import Admission
from .routes.reading import AT_LEAST_HEADER, POSITION_HEADER, PositionHeader
from .routes.schemas import answer_schemas

DESCRIPTION = f"""
An event-sourced platform that makes agents better from their own runs, and can prove it.

Everything under `/v1` needs `Authorization: Bearer <token>` (`flywheel token issue NAME` makes one), and
so do `/metrics` and this document, `/openapi.json`. `/healthz` alone needs none: it shows how far
log and projections are.

Every read takes `as_of`, a log position or a time, and `at_least` (or the header `{AT_LEAST_HEADER}`), a position
that the log must have reached; every answer says in `{POSITION_HEADER}` which position it is of.
Scores, values and costs are integers in millionths. Errors are `{{"error": {{"type", "message", "facts"}}}}`.
"""

_TAGS = [
    {"name": "health", "description": "Whether the service and its database answer."},
    {"name": "events", "description": "The log: read it in order, append to it."},
    {"name": "runs", "description": "One execution of a task, how it ended and what it earned."},
    {"name": "outcomes", "description": "How the runs of each sweep went, counted."},
    {"name": "rewrites", "description": "Changes to plans that recovery proposed, and their record."},
    {"name": "hints", "description": "Where something was seen that a step needs, and the record of each."},
    {"name": "exemplars", "description": "What good runs did at a step, and the record of each."},
    {"name": "curriculum", "description": "Snippets that do one thing, and the record of each."},
    {"name": "recipes", "description": "Named pieces of plan that can be used again, and the record of each."},
    {"name": "substrates", "description": "What each way to learn was worth, by cluster."},
    {"name": "courses", "description": "What the controller was asked to do on a site, and why it ended."},
    {"name": "environments", "description": "Sites that were probed, and which of them may be learned from."},
    {"name": "benchmarks", "description": "Frozen tasks and seeds that arms are judged on."},
    {"name": "verdicts", "description": "What the gate decided, and by which numbers."},
    {"name": "failures", "description": "Failed runs, grouped by how they failed."},
    {"name": "costs", "description": "The price book in force and what was spent."},
    {"name": "diff", "description": "What changed in meaning between two positions."},
    {"name": "champion", "description": "The artifact in production and every move of that pointer."},
    {"name": "blobs", "description": "The bytes that events name: put them first, read them by address."},
    {"name": "datasets", "description": "Frozen selections of runs as rows to train on."},
    {"name": "checkpoints", "description": "Weights that were trained, and the events they were learned from."},
    {"name": "taint", "description": "Runs withdrawn, subjects erased, and what was learned from a run."},
]

_RESOURCES = (
    events,
    runs,
    slices,
    outcomes,
    rewrites,
    substrates,
    courses,
    environments,
    benchmarks,
    verdicts,
    failures,
    costs,
    champion,
    difference,
    datasets,
    checkpoints,
    blobs,
    taint,
)


class _Api(FastAPI):
    def openapi(self) -> dict[str, Any]:
        """The document, with the schemas of events and of answers beside those of the routes."""
        schema = super().openapi()
        schema["components"]["schemas"].update(answer_schemas() | events.vocabulary())
        return schema


def create_app(house: House) -> FastAPI:
    """The application. Endpoints are synchronous, as the store is: each runs on a thread of the server's pool."""
    app = _Api(
        title="flywheel", version="0.1.0", description=DESCRIPTION, openapi_tags=_TAGS, openapi_url=None, docs_url=None
    )
    app.state.house = house
    app.add_middleware(Admission)
    app.add_middleware(PositionHeader)
    problems.install(app)
    app.include_router(health.router)
    app.include_router(metrics.router)
    app.include_router(_guard_router())

    @app.get("/openapi.json", include_in_schema=False, dependencies=[Depends(caller)])
    def openapi() -> dict[str, Any]:
        return app.openapi()

    return app


def _guard_router() -> APIRouter:
    """Every resource under /v1, behind the bearer token."""
    described = {
        401: "No token that is accepted was presented.",
        409: "The position asked for is not there yet.",
        422: "A part of the request is not what it should be.",
        503: "The database does not answer, or a projection is parked.",
    }
    v1 = APIRouter(
        prefix="/v1",
        dependencies=[Depends(caller)],
        responses={status: {"model": problems.Problem, "description": words} for status, words in described.items()},
    )
    for resource in _RESOURCES:
        v1.include_router(resource.router)
    for kind in LOOSE:
        v1.include_router(pieces.router_of(kind))
    return v1
