"""Every error in one shape, that of RFC 9457 with `{"error": {type, message, facts}}`, by the status of one table."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import InterfaceError, OperationalError, PendingRollbackError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from starlette.exceptions import HTTPException

from agents.models.servers.errors import ServingRefused
from agents.rollouts.errors import BenchmarkInstance, SessionBusy
from agents.suites.errors import NoPlan, NoSuite, OtherEnvironment
from eventlog.database import database_error
from eventlog.errors import (
    AppendInterrupted,
    BadProjectName,
    BlobErased,
    BlobMissing,
    FlywheelError,
    ForeignSchema,
    LogBusy,
    LogFull,
    LogUnavailable,
    ObjectStoreUnusable,
    OldServer,
    StatementEnded,
    SubjectGone,
    UnstorableNumber,
    UnstorableText,
)
from projections.errors import BackwardDifference, NotThereYet, ProjectionParked, UnknownProjection

from ..errors import (
    BadArtifactName,
    BadPosition,
    EmptyDataset,
    NoModel,
    NotPredicted,
    NotResumable,
    NotSetUp,
    OthersRun,
    PredictionDiffers,
    RunSealed,
    Unknown,
)
from ..ingest.errors import BadTraces, TracesTooLarge
from ..serving.errors import (
    BadCall,
    NoUpstream,
    OpinionRefused,
    OpinionReported,
    PromptTooLarge,
    ReferenceChanged,
    RewardReported,
    RunClosed,
    RunMisnamed,
    RunUnnamed,
    UnknownModel,
    UpstreamAnswered,
    UpstreamLost,
    UpstreamRefused,
)
from ..tokens import TokenNameTaken
from .as_of import POSITION_HEADER, position_for, reply
from .errors import (
    AppendConflict,
    AppendKeyReused,
    AppendTooLarge,
    BeyondRows,
    BlobTooLarge,
    BodyCut,
    BodyTooLarge,
    BodyTooSlow,
    ForeignRunName,
    ForeignStream,
    NotAcceptable,
    NotAuthorized,
    NotReady,
    ReservedEvent,
    RoleTooLow,
    TooManyBodies,
    TooManyBytes,
    TooManyRequests,
    TooManyStreams,
    Unprocessable,
    UnreadableType,
)
from .problem_form import PROBLEM_TYPE, title_of

_LOG = logging.getLogger(__name__)

SERVER_ERROR = 500
UNAVAILABLE = 503

STATUS: Mapping[type[FlywheelError], int] = {
    BadCall: 400,
    BadTraces: 400,
    BodyCut: 400,
    RunMisnamed: 400,
    RunUnnamed: 400,
    NotAuthorized: 401,
    ReservedEvent: 403,
    RoleTooLow: 403,
    ForeignRunName: 403,
    OthersRun: 403,
    ForeignStream: 422,
    BlobMissing: 404,
    Unknown: 404,
    UnknownModel: 404,
    UnknownProjection: 404,
    NotAcceptable: 406,
    BodyTooSlow: 408,
    RunSealed: 409,
    AppendConflict: 409,
    AppendKeyReused: 409,
    NotThereYet: 409,
    OpinionRefused: 409,
    OpinionReported: 409,
    RewardReported: 409,
    NotResumable: 409,
    PredictionDiffers: 409,
    RunClosed: 409,
    SessionBusy: 409,
    TokenNameTaken: 409,
    BlobErased: 410,
    SubjectGone: 410,
    AppendTooLarge: 413,
    BodyTooLarge: 413,
    BlobTooLarge: 413,
    PromptTooLarge: 413,
    TracesTooLarge: 413,
    UnreadableType: 415,
    BeyondRows: 416,
    BackwardDifference: 422,
    BadArtifactName: 422,
    BadPosition: 422,
    BadProjectName: 422,
    BenchmarkInstance: 422,
    EmptyDataset: 422,
    NoModel: 422,
    NoPlan: 422,
    NoSuite: 422,
    NotPredicted: 422,
    OtherEnvironment: 422,
    ReferenceChanged: 422,
    ServingRefused: 422,
    Unprocessable: 422,
    UnstorableNumber: 422,
    UnstorableText: 422,
    LogBusy: 429,
    TooManyBodies: 429,
    TooManyBytes: 429,
    TooManyRequests: 429,
    TooManyStreams: 429,
    UpstreamAnswered: 502,
    UpstreamLost: 502,
    UpstreamRefused: 502,
    AppendInterrupted: 503,
    StatementEnded: 503,
    ForeignSchema: 503,
    LogFull: 503,
    LogUnavailable: 503,
    NoUpstream: 503,
    NotReady: 503,
    NotSetUp: 503,
    ObjectStoreUnusable: 503,
    OldServer: 503,
    ProjectionParked: 503,
}
"""The status of each error; what is not here is damage or a defect on this side, and answers 500."""


def error_status(error: FlywheelError) -> int:
    """The status an error answers with."""
    return next((STATUS[kind] for kind in type(error).__mro__ if kind in STATUS), SERVER_ERROR)


def problem(status: int, kind: str, message: str, facts: Mapping[str, object]) -> Response:
    """An answer in the one shape."""
    told = {"type": f"urn:flywheel:error:{kind}", "title": title_of(kind), "status": status, "detail": message}
    answer = reply({**told, "error": {"type": kind, "message": message, "facts": facts}}, status=status)
    answer.headers["Content-Type"] = PROBLEM_TYPE
    return answer


def refusal(error: FlywheelError) -> Response:
    """The answer to an error of ours."""
    answer = problem(error_status(error), type(error).__name__, str(error), error.facts)
    if isinstance(error, NotAuthorized):
        answer.headers["WWW-Authenticate"] = 'Bearer realm="flywheel"'
    if (seconds := retry_seconds(error)) is not None:
        answer.headers["Retry-After"] = str(seconds)
    if isinstance(error, BeyondRows):
        answer.headers["Content-Range"] = f"bytes */{error.facts['expected']}"
    if isinstance(error, BodyTooSlow):
        answer.headers["Connection"] = "close"
    return answer


def retry_seconds(error: FlywheelError) -> int | None:
    """In how many seconds it makes sense to ask again; None if it does not, or nobody knows."""
    if isinstance(error, TooManyRequests):
        return int(str(error.facts["seconds"]))
    is_full = isinstance(error, LogBusy | TooManyBodies | TooManyBytes | TooManyStreams)
    return 1 if is_full or error_status(error) == UNAVAILABLE else None


def faults(errors: Sequence[Any]) -> list[dict[str, str]]:
    """Places at which a request was wrong, with the reasons; never the input itself."""
    return [{"where": ".".join(str(part) for part in error["loc"]), "message": error["msg"]} for error in errors]


def invalid(errors: Sequence[Any]) -> Response:
    """422 for a request whose parts are not what they should be."""
    found = faults(errors)
    first = found[0]
    return problem(422, "InvalidRequest", f"{first['where'] or 'The body'}: {first['message']}.", {"errors": found})


def problem_of(description: str) -> dict[str, Any]:
    """The entry for the status of an error in the `responses` of a route."""
    schema = {"$ref": "#/components/schemas/Problem"}
    return {"description": description, "content": {PROBLEM_TYPE: {"schema": schema}}}


CUT = problem_of("The connection ended before the whole body had arrived.")
NO_TEXT = problem_of("The body is no JSON text in UTF-8.")
SLOW = problem_of("The body did not arrive in time.")


def install(app: FastAPI) -> None:
    """Answer every error of the application in the one shape."""
    _install_ours(app)
    _install_foreign(app)


def _install_ours(app: FastAPI) -> None:
    @app.exception_handler(FlywheelError)
    async def flywheel(request: Request, error: FlywheelError) -> Response:
        answer = refusal(error)
        if answer.status_code >= SERVER_ERROR:
            _LOG.error("%s %s answered %d: %s", request.method, request.url.path, answer.status_code, error)
        return answer

    @app.exception_handler(OperationalError)
    @app.exception_handler(InterfaceError)
    @app.exception_handler(PendingRollbackError)
    @app.exception_handler(PoolTimeout)
    async def unavailable(request: Request, error: SQLAlchemyError) -> Response:
        _LOG.error("%s %s: the database does not answer as expected: %s", request.method, request.url.path, error)
        found = database_error(error)
        cause = found if isinstance(found, StatementEnded) else LogUnavailable(actual=type(error).__name__)
        return refusal(cause)


def _install_foreign(app: FastAPI) -> None:
    @app.exception_handler(RequestValidationError)
    async def validation(_request: Request, error: RequestValidationError) -> Response:
        return invalid(error.errors())

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> Response:
        message = f"{request.method} {request.url.path}: {error.detail}. /openapi.json lists what is offered."
        answer = problem(error.status_code, "HttpError", message, {"path": request.url.path, "method": request.method})
        answer.headers.update(error.headers or {})
        return answer

    app.exception_handler(Exception)(answer_defect)


async def answer_defect(request: Request, error: Exception) -> Response:
    """The answer to a defect on this side, which names the position of the log as any other does."""
    message = f"{request.method} {request.url.path} failed on this side; the server's log says more."
    answer = problem(SERVER_ERROR, "InternalError", message, {"error": type(error).__name__})
    if (position := await position_for(request.scope)) is not None:
        answer.headers[POSITION_HEADER] = str(position)
    return answer
