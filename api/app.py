"""The REST application of one project."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Depends, FastAPI

from projections.memories import FOLDS, LOOSE

from .dashboard.application import mount_dashboard
from .house import House
from .routes import (
    artifacts,
    bases,
    benchmarks,
    blobs,
    champion,
    checkpoints,
    costs,
    courses,
    datasets,
    difference,
    environments,
    event_stream,
    events,
    failures,
    health,
    log,
    loops,
    metrics,
    outcomes,
    outlets,
    pieces,
    predict,
    problems,
    proxy,
    reports,
    rewrites,
    runs,
    slices,
    substrates,
    suites,
    sweeps,
    taint,
    traces,
    verdicts,
)
from .routes.access import caller
from .routes.admission import Admission, Places
from .routes.as_of import AT_LEAST_HEADER, POSITION_HEADER, PositionHeader
from .routes.parameters import check_parameters
from .routes.problem_form import problem_schemas
from .routes.rates import RateLimit
from .routes.reference_page import reference_routes
from .routes.schemas import answer_schemas
from .routes.small_bodies import SmallBodies
from .routes.trace_errors import TraceErrors
from .serving.local_upstream import LocalChampion

DESCRIPTION = f"""
An event-sourced platform that makes agents better from their own runs, and keeps the evidence.

Everything under `/v1` needs `Authorization: Bearer <token>` (create one with `flywheel token issue NAME`),
and so do `/metrics` and this document, `/openapi.json`. Only `/healthz` and `/readyz` need none:
the first reports the positions of log and projections, the second whether requests can be served.

Every read takes `as_of`, a log position or a time, and `at_least` (or the header `{AT_LEAST_HEADER}`), a position
that the log must have reached. Every answer reports its position in `{POSITION_HEADER}`.
Scores, values and costs are integers in millionths. Errors are problems (RFC 9457):
`{{"type", "title", "status", "detail", "error": {{"type", "message", "facts"}}}}`.
"""

_TAGS = [
    {"name": "health", "description": "Status of the service and its database."},
    {"name": "events", "description": "The event log: read it in order, append to it."},
    {"name": "runs", "description": "Executions of tasks, with status and reward."},
    {"name": "outcomes", "description": "Counts of run results by sweep and template."},
    {"name": "rewrites", "description": "Plan changes proposed by recovery, with wins and losses."},
    {"name": "hints", "description": "Hints where to find what a step needs, with wins and losses."},
    {"name": "exemplars", "description": "Examples of what passed runs did at a step, with wins and losses."},
    {"name": "curriculum", "description": "Snippets that do one thing, with wins and losses."},
    {"name": "recipes", "description": "Named, reusable parts of plans, with wins and losses."},
    {"name": "skill_pieces", "description": "Skills for the workers of delegation loops, with wins and losses."},
    {"name": "instructions", "description": "Texts that an agent gets before its task, with wins and losses."},
    {"name": "substrates", "description": "Learned value of each kind of memory, by task cluster."},
    {"name": "courses", "description": "Budgets of controller runs on a site, and why they ended."},
    {"name": "environments", "description": "Probed sites and their admission."},
    {"name": "benchmarks", "description": "Frozen tasks and seeds for the gate."},
    {"name": "verdicts", "description": "Decisions of the gate with their statistics."},
    {"name": "failures", "description": "Failed runs, clustered by cause."},
    {"name": "costs", "description": "Current prices and money spent."},
    {"name": "diff", "description": "State changes between two positions."},
    {"name": "champion", "description": "The current champion and its history."},
    {"name": "blobs", "description": "Bytes that events refer to: upload them before the event, read them by address."},
    {"name": "traces", "description": "Traces of OpenTelemetry, recorded as runs of your own agents."},
    {"name": "datasets", "description": "Frozen training rows selected from runs."},
    {"name": "checkpoints", "description": "Trained weights and their lineage."},
    {"name": "predict", "description": "Have a task played once: asked for, looked at, called off."},
    {"name": "artifacts", "description": "Weights and memory under one name."},
    {"name": "bases", "description": "Base models that were added from outside."},
    {"name": "suites", "description": "Suites of tasks, by version."},
    {"name": "sweeps", "description": "Planned runs: how far each sweep is, and what its groups are good for."},
    {"name": "loops", "description": "Delegation loops, and the skills and tools that their workers wrote."},
    {"name": "log", "description": "The log as a whole: head, counts, forged events."},
    {"name": "access", "description": "Tokens and webhooks, for administrators."},
    {"name": "taint", "description": "Withdrawn runs, erased subjects, and what was learned from a run."},
]

_RESOURCES = (
    events,
    event_stream,
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
    traces,
    taint,
    predict,
    artifacts,
    bases,
    suites,
    sweeps,
    loops,
    log,
    outlets,
)


class _Api(FastAPI):
    def openapi(self) -> dict[str, Any]:
        """The OpenAPI document, with the schemas of events and answers added."""
        schema = super().openapi()
        schema["components"]["schemas"].update(answer_schemas() | events.vocabulary() | problem_schemas())
        return schema


def create_app(house: House, champion: LocalChampion | None = None) -> FastAPI:
    """Create the application; a champion in this process, if there is one, answers the calls of the proxy.

    Endpoints are synchronous, as the store is, and run on threads of the server's pool.
    """
    app = _Api(
        title="flywheel",
        version="0.1.0",
        description=DESCRIPTION,
        openapi_tags=_TAGS,
        openapi_url=None,
        docs_url=None,
        dependencies=[Depends(check_parameters)],
        lifespan=proxy.lifespan,
        responses={422: problems.problem_of("Part of the request is invalid.")},
    )
    app.state.house = house
    app.state.champion = champion
    app.state.places = Places()
    app.state.rates = RateLimit()
    app.state.stream_seconds = event_stream.LONGEST_S
    app.state.is_stopping = lambda: False  # a server that stops tells it, so that streams end
    app.add_middleware(SmallBodies)
    app.add_middleware(Admission)
    app.add_middleware(PositionHeader)
    app.add_middleware(TraceErrors)
    problems.install(app)
    app.include_router(health.router)
    app.include_router(metrics.router)
    app.include_router(_guard_router())
    app.router.routes[:0] = proxy.routes()  # first, because they are called most
    app.router.routes.extend(reference_routes())

    @app.get("/openapi.json", include_in_schema=False, dependencies=[Depends(caller)])
    def openapi() -> dict[str, Any]:
        return app.openapi()

    mount_dashboard(app)
    return app


def _guard_router() -> APIRouter:
    """Router of all resources under /v1, which need a bearer token."""
    described: dict[int | str, dict[str, Any]] = {
        401: problems.problem_of("The bearer token is missing or not accepted."),
        409: problems.problem_of("The log has not reached the requested position."),
        429: problems.problem_of("The token sends more requests than FLYWHEEL_REQUESTS_PER_SECOND allows."),
        503: problems.problem_of("The database does not answer, or a projection is parked."),
    }
    v1 = APIRouter(prefix="/v1", dependencies=[Depends(caller)], responses=described)
    for resource in _RESOURCES:
        v1.include_router(resource.router)
    for kind in LOOSE:
        v1.include_router(pieces.router_of(kind))
    for each in FOLDS:
        v1.include_router(reports.reports_router(each))
    return v1
