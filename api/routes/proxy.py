"""The capture proxy: model calls of outside agents, in the dialects of OpenAI and Anthropic, recorded as runs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import ExitStack, aclosing, asynccontextmanager
from dataclasses import replace
from typing import Any, Final
from weakref import finalize

from anyio import to_thread
from fastapi import FastAPI, Request, Response
from fastapi.security import HTTPAuthorizationCredentials
from sqlalchemy.exc import SQLAlchemyError
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route

from eventlog.database import database_error
from eventlog.errors import FlywheelError
from eventlog.events import TokenRole
from projections.access import TokenState
from projections.runs import OUTSIDE

from ..house import House
from ..serving.adapter_upstream import proxied_upstream
from ..serving.call_appends import RunOpening
from ..serving.call_terms import CallTerms, configured_terms, local_terms
from ..serving.calls import READ_HERE, ModelCall, read_object
from ..serving.capture import Capture
from ..serving.dialects import CHAT, COMPLETIONS, MESSAGES, CallDialect, error_body
from ..serving.errors import BadCall, PromptTooLarge, RunMisnamed, RunUnnamed, UpstreamAnswered
from ..serving.forwarding import Forwarding
from ..serving.local_upstream import DeployedModels, LocalChampion, LocalUpstream
from ..serving.together import Together
from ..serving.told_memory import HEADER, MemoryTeller, with_memory
from ..serving.upstream import AnyUpstream, check_upstream, served_tokens
from .access import admit_token, allow_token
from .admission import ByteLease, lease_bytes
from .as_of import house_of, mark
from .bodies import hold_body
from .errors import ForeignRunName
from .parameters import find_unstorable
from .problems import error_status, retry_seconds

ROLE: Final[TokenRole] = "ingest"
NAME_MOST = 200


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Open the connections to the model server while the application runs."""
    house: House = app.state.house
    champion: LocalChampion | None = app.state.champion
    app.state.memory = MemoryTeller(house)
    app.state.tokens = Together(house.known_tokens.find_each)
    with ExitStack() as opened:
        if champion is None:
            app.state.upstream = opened.enter_context(proxied_upstream(house))
            app.state.capture = Capture(house, served_tokens(house.settings))
            app.state.terms = configured_terms(house.settings)
        else:
            models = DeployedModels(champion.deployment, champion.artifacts)
            app.state.upstream = LocalUpstream(models, champion.has_logprobs)
            app.state.capture = Capture(house, champion.tokens)
            app.state.terms = local_terms(has_logprobs=champion.has_logprobs)
        try:
            yield
        finally:
            if app.state.upstream is not None:
                await app.state.upstream.aclose()


def routes() -> list[Route]:
    """The routes: the run is named in the path, by the header `X-Flywheel-Run` or after a slash in the caller's key.

    They speak the protocols of others, so they are no part of the document of ours.
    """
    found: list[Route] = []
    for prefix in ("/v1", "/{run}/v1"):
        found += [_route_of(prefix, dialect) for dialect in (CHAT, COMPLETIONS, MESSAGES)]
        found.append(Route(f"{prefix}/models", _models, methods=["GET"]))
    return found


def _route_of(prefix: str, dialect: CallDialect) -> Route:
    async def endpoint(request: Request) -> Response:
        run = request.path_params.get("run") or request.headers.get("x-flywheel-run")
        return await _forward(request, house_of(request), dialect, run)

    return Route(f"{prefix}/{dialect.path}", endpoint, methods=["POST"])


async def _models(request: Request) -> Response:
    """The models that can be called."""
    upstream: AnyUpstream | None = request.app.state.upstream
    try:
        await to_thread.run_sync(_admit, request, house_of(request))
        names = () if upstream is None else await to_thread.run_sync(upstream.list_models)
    except FlywheelError as problem:
        return _refusal(CHAT, problem)
    listed = [{"id": name, "object": "model", "created": 0, "owned_by": "flywheel"} for name in names]
    return JSONResponse({"object": "list", "data": listed})


async def _forward(request: Request, house: House, dialect: CallDialect, run: str | None) -> Response:
    """Forward a call; the bytes of its body count until it is answered."""
    lease = lease_bytes(request.app, house)
    answer: Response | None = None
    try:
        answer = await _answer(request, house, dialect, run, lease)
    finally:
        if isinstance(answer, StreamingResponse):
            finalize(answer, lease.release)  # also if nobody begins to read it
        else:
            lease.release()
    return answer


async def _answer(request: Request, house: House, dialect: CallDialect, run: str | None, lease: ByteLease) -> Response:
    try:
        token = await _admit_caller(request, house)
        async with hold_body(request, house, token, house.settings.prompt_bytes, PromptTooLarge, lease) as raw:
            body, call = await _read_call(dialect, raw)
            del raw
        upstream = check_upstream(request.app.state.upstream, dialect)
        opening = _run_opening(request, token, run)
        if (site := request.headers.get(HEADER)) is not None:
            opening, body, call = await to_thread.run_sync(_tell_memory, request, dialect, opening, (body, call), site)
        capture: Capture = request.app.state.capture
        if not capture.is_open(opening):
            await to_thread.run_sync(_open_run, capture, opening, upstream, call.model)
        elif call.model != upstream.model:
            await to_thread.run_sync(upstream.weights_of, call.model)
        terms: CallTerms = request.app.state.terms
        forwarding = Forwarding(capture, upstream, dialect, opening, call, body, request.headers, terms)
        if not call.is_streamed:
            answer = await forwarding.answer()
            _mark_run(request, capture, opening)
            return JSONResponse(answer)
        parts = forwarding.stream()
        await anext(parts)
        _mark_run(request, capture, opening)
    except FlywheelError as problem:
        return _refusal(dialect, problem)
    except SQLAlchemyError as problem:
        return _refusal(dialect, database_error(problem))
    return StreamingResponse(
        _close_after(parts, lease), media_type="text/event-stream", headers={"Cache-Control": "no-cache"}
    )


def _mark_run(request: Request, capture: Capture, opening: RunOpening) -> None:
    """Have the answer name the position of the run's last event: reading the head would cost a query."""
    position = capture.position_of(opening)
    if position is not None:
        mark(request, position)


def _tell_memory(
    request: Request, dialect: CallDialect, opening: RunOpening, asked: tuple[dict[str, Any], ModelCall], site: str
) -> tuple[RunOpening, dict[str, Any], ModelCall]:
    """A call with what memory tells of a site put in front of it; what is recorded is what the model reads."""
    body, call = asked
    teller: MemoryTeller = request.app.state.memory
    told = teller.tell_run(opening, call, site)
    if told.paragraph:
        body = dialect.advise(body, told.paragraph)
        call = replace(dialect.read_call(body), size=call.size)
    return with_memory(opening, told), body, call


def _open_run(capture: Capture, opening: RunOpening, upstream: AnyUpstream, model: str) -> None:
    """Begin a run with the weights of the model that it calls first. Raises UnknownModel and what `open_run` does."""
    capture.open_run(replace(opening, weights=upstream.weights_of(model)))


async def _read_call(dialect: CallDialect, raw: bytes) -> tuple[dict[str, Any], ModelCall]:
    """The body and the call in it; a long one is read in a thread. Raises BadCall."""

    def read() -> tuple[dict[str, Any], ModelCall]:
        body = read_object(raw)
        return body, replace(dialect.read_call(body), size=len(raw))

    return read() if len(raw) <= READ_HERE else await to_thread.run_sync(read)


async def _close_after(parts: Any, lease: ByteLease) -> AsyncIterator[bytes]:
    """The parts, and the end of the call at the model server where the caller hangs up."""
    try:
        async with aclosing(parts) as own:
            async for part in own:
                yield part
    finally:
        lease.release()


async def _admit_caller(request: Request, house: House) -> TokenState:
    """As `_admit`, by one statement for all calls that come at the same time."""
    key, _ = _key_of(request)
    if key:
        tokens: Together[str, TokenState | None] = request.app.state.tokens
        if (found := await tokens.answer(key)) is not None:
            return allow_token(request, house, found, ROLE)
    return await to_thread.run_sync(_admit, request, house)


def _admit(request: Request, house: House) -> TokenState:
    """The token of the caller: a bearer token, or the key of Anthropic's clients. Raises NotAuthorized, RoleTooLow."""
    key, _ = _key_of(request)
    presented = HTTPAuthorizationCredentials(scheme="Bearer", credentials=key) if key else None
    return admit_token(request, house, presented, ROLE)


def _key_of(request: Request) -> tuple[str, str]:
    """The token in a caller's key, and the run that the key is for, empty if it is for any: `TOKEN` or `TOKEN/RUN`."""
    scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
    key = bearer.strip() if scheme.lower() == "bearer" else request.headers.get("x-api-key", "")
    token, _, run = key.partition("/")
    return token, run


def _run_opening(request: Request, token: TokenState, run: str | None) -> RunOpening:
    """The caller's description of its run. Raises BadCall, RunMisnamed, RunUnnamed, ForeignRunName."""
    for fault in find_unstorable(request):
        expected = "text in UTF-8 without NUL characters"
        raise BadCall(where=" ".join(fault["loc"]), actual="text that no log can hold", expected=expected)
    keyed = _key_of(request)[1]
    if keyed and run and run != keyed:
        raise RunMisnamed(actual=run, expected=keyed)
    run = run or keyed
    if not run or len(run) > NAME_MOST:
        raise RunUnnamed
    group = request.headers.get("x-flywheel-group") or run
    for what, name in (("run", run), ("group", group)):
        if not name.startswith(OUTSIDE) or len(name) > NAME_MOST:
            raise ForeignRunName(what=what, actual=name, expected=OUTSIDE)
    task = (request.headers.get("x-flywheel-task") or "outside")[:NAME_MOST]
    return RunOpening(run=run, token=token.token, group=group, task=task)


def _refusal(dialect: CallDialect, problem: FlywheelError) -> Response:
    status, headers = error_status(problem), {}
    if isinstance(problem, UpstreamAnswered):
        actual = int(problem.facts["actual"])  # type: ignore[call-overload]  # the status that httpx2 gave
        status = actual if actual < 500 or actual == 529 else 502  # noqa: PLR2004  (a failure of the server behind)
        if problem.facts.get("retry_after"):
            headers["Retry-After"] = str(problem.facts["retry_after"])
    if (seconds := retry_seconds(problem)) is not None:
        headers["Retry-After"] = str(seconds)
    body = error_body(dialect.api, status, str(problem), type(problem).__name__)
    return JSONResponse(body, status_code=status, headers=headers)
