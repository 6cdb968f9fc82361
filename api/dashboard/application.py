"""The application of the pages, which `api.app` mounts: its routes, its errors as pages, its static files."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import RedirectResponse, Response
from fastapi.staticfiles import StaticFiles
from sqlalchemy.exc import InterfaceError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from starlette.exceptions import HTTPException

from eventlog.errors import FlywheelError

from ..routes.parameters import check_parameters
from ..routes.problems import error_status, faults, retry_seconds
from . import access, champions, datasets, gate, log, memory, moves, overview, runs, training
from .errors import ForgedForm, NotConfirmed, SignedOut
from .forms import SmallForms
from .pages import HEADERS, HELP, HELP_HEADERS, PREFIX, STATIC, address_of, render_page
from .sessions import Sessions

_STATUS: dict[type[FlywheelError], int] = {ForgedForm: 403, NotConfirmed: 422}


def mount_dashboard(app: FastAPI) -> None:
    """Serve the pages below PREFIX, over the state of the application, and lead `/` there."""
    app.state.sessions = Sessions()
    pages = _create_pages()
    pages.state = app.state  # pages read the house that the application was created with
    app.mount(PREFIX, pages)
    if HELP.is_dir():
        app.add_route("/help", _lead_to_help, include_in_schema=False)
        app.mount("/help", _Documentation(directory=HELP, html=True), name="help")
    else:
        app.add_route("/help{path:path}", _lead_to_no_help, include_in_schema=False)
    app.add_route("/", _lead_home, include_in_schema=False)


class _Documentation(StaticFiles):
    """The built pages of the documentation. Their generator writes scripts into them, so these may be inline."""

    def file_response(self, *given: Any, **more: Any) -> Response:
        """See StaticFiles."""
        answer = super().file_response(*given, **more)
        answer.headers.update(HELP_HEADERS)
        return answer


async def _lead_to_help(request: Request) -> Response:
    return RedirectResponse(str(request.scope.get("root_path", "")) + "/help/")


async def _lead_to_no_help(request: Request) -> Response:
    return RedirectResponse(str(request.scope.get("root_path", "")) + f"{PREFIX}/no-help")


async def _say_no_help(request: Request) -> Response:
    """404 with the way to get the documentation, where the installation has none."""
    return render_page(request, "no_help.html", http_status=404)


async def _lead_home(request: Request) -> Response:
    return RedirectResponse(str(request.scope.get("root_path", "")) + f"{PREFIX}/")


def _create_pages() -> FastAPI:
    pages = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, dependencies=[Depends(check_parameters)])
    pages.add_middleware(SmallForms)
    guarded = APIRouter(dependencies=[Depends(access.signed_in)])
    for area in (overview, runs, memory, gate, champions, datasets, training, log, moves):
        guarded.include_router(area.router)
    pages.include_router(access.router)
    pages.include_router(guarded)
    pages.add_api_route("/no-help", _say_no_help)
    pages.mount("/static", StaticFiles(directory=STATIC), name="static")
    _install_errors(pages)
    return pages


def _install_errors(pages: FastAPI) -> None:
    @pages.exception_handler(SignedOut)
    async def signed_out(request: Request, _error: SignedOut) -> Response:
        where = address_of(request, "/sign-in")
        if "HX-Request" in request.headers:
            return Response(status_code=401, headers={**HEADERS, "HX-Redirect": where})
        return RedirectResponse(where, status_code=303, headers=HEADERS)

    @pages.exception_handler(FlywheelError)
    async def flywheel(request: Request, error: FlywheelError) -> Response:
        answer = _failure(request, _STATUS.get(type(error)) or error_status(error), str(error))
        if (seconds := retry_seconds(error)) is not None:
            answer.headers["Retry-After"] = str(seconds)
        return answer

    @pages.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        found = faults(error.errors())
        return _failure(request, 422, "; ".join(f"{each['where']}: {each['message']}" for each in found))

    @pages.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> Response:
        return _failure(request, error.status_code, f"{request.url.path}: {error.detail}")

    @pages.exception_handler(OperationalError)
    @pages.exception_handler(InterfaceError)
    @pages.exception_handler(PoolTimeout)
    async def unavailable(request: Request, _error: SQLAlchemyError) -> Response:
        return _failure(request, 503, "The database does not answer. `flywheel db status` tells whether it runs.")


def _failure(request: Request, status: int, message: str, **values: Any) -> Response:
    """An error as a page, or as a line where htmx asked for a part of one."""
    template = "parts/failure.html" if "HX-Request" in request.headers else "failure.html"
    return render_page(request, template, http_status=status, message=message, code=status, **values)
