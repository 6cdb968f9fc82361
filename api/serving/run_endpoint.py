"""A model endpoint for agents that Flywheel plays: each run has a key of its own, and its calls are events of the run.

It listens on this machine alone, in a thread. A key is good while its run lasts. The model server's own key stays here.
A model in this process answers each run by the weights of its artifact.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

import uvicorn
from anyio import to_thread
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from agents.executors.executor import PassedOn
from agents.executors.local import FolderOf, no_checkpoints
from agents.executors.outside.task import TaskModel
from agents.models.errors import ModelUnreachable
from agents.models.local.network import BASE
from eventlog.errors import FlywheelError

from ..ports import listen
from ..settings import Settings
from .call_appends import RunOpening
from .calls import ModelAnswer, ModelCall, read_object
from .dialects import CHAT, COMPLETIONS, MESSAGES, CallDialect, error_body
from .errors import NoSuchRun, PromptTooLarge, RunClosed, TooManyCalls, UpstreamAnswered, UpstreamLost, UpstreamRefused
from .forwarding import Forwarding, is_server_failure, relay
from .outside_facts import call_event
from .run_models import RunModels, run_models
from .upstream import AnyUpstream, check_upstream

MOST_CALLS: Final = 1_000
"""Most calls of a run, so that an agent that asks without end costs a bounded amount."""

START_WITHIN_S: Final = 10.0
_LOST: Final = "The model gave no whole answer. Nothing was recorded of this call; try it again."
_STATUS: Final[dict[type[FlywheelError], int]] = {
    NoSuchRun: 401,
    RunClosed: 409,
    TooManyCalls: 429,
    PromptTooLarge: 413,
    UpstreamLost: 502,
    UpstreamRefused: 502,
}


@dataclass
class RunCalls:
    """The calls of one run, and the paragraph that each of its requests is given besides. Thread-safe."""

    model: TaskModel
    upstream: AnyUpstream
    served: Mapping[str, str]
    timeout_s: float
    recorded: str | None = None
    advice: str = ""
    fresh: list[PassedOn] = field(default_factory=list)
    begun: int = 0
    is_closed: bool = False
    lost: FlywheelError | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self) -> None:
        """Count a call before it is sent. Raises RunClosed, TooManyCalls."""
        with self.lock:
            if self.is_closed:
                raise RunClosed(run="of this key", actual="its agent has ended")
            if self.begun >= MOST_CALLS:
                raise TooManyCalls(expected=MOST_CALLS)
            self.begun += 1

    async def record(self, opening: RunOpening, call: ModelCall, answer: ModelAnswer) -> None:
        """Keep one call for the run's end. Raises RunClosed."""
        await to_thread.run_sync(self._keep, opening, call, answer)

    def _keep(self, opening: RunOpening, call: ModelCall, answer: ModelAnswer) -> None:
        named = answer if self.recorded is None else replace(answer, model=self.recorded)
        event, blobs = call_event(opening.run, call, named, self.served)
        with self.lock:
            if self.is_closed:
                raise RunClosed(run=opening.run, actual="its agent has ended")
            self.fresh.append(PassedOn(None, event, blobs))
            self.lost = None

    def calls(self, taken: int) -> tuple[PassedOn, ...]:
        """See ModelAccess."""
        with self.lock:
            found, self.fresh = self.fresh, []
        return tuple(PassedOn(taken, each.event, each.blobs) for each in found)

    def close(self) -> None:
        """See ModelAccess."""
        with self.lock:
            self.is_closed = True
            lost = self.lost
        if lost is not None:
            raise ModelUnreachable(
                url=self.upstream.url, actual=str(lost.facts["actual"]), tries=1, timeout_s=self.timeout_s
            ) from lost

    def message_of(self, problem: FlywheelError) -> str:
        """What the agent is told of an error: the same by whatever weights it is answered, where they are known.

        A failure to load them would tell that they are no base's; the whole of it is the reason of a missing run.
        """
        if self.recorded is None:
            return str(problem)
        return _LOST if is_server_failure(problem) else str(problem).replace(self.recorded, self.model.name)

    def lose(self, problem: FlywheelError) -> None:
        """Note that the model server failed, which no agent causes; an answer after that forgives it."""
        with self.lock:
            self.lost = problem


@dataclass
class RunEndpoint:
    """The endpoint and the runs that may use it, by their keys."""

    settings: Settings
    models: RunModels
    address: str
    runs: dict[str, RunCalls] = field(default_factory=dict)

    @contextmanager
    def open_run(self, advice: str = "", weights: str = BASE) -> Iterator[RunCalls]:
        """Make a key for one run, good until the end of the block. Advice, if there is any, goes into each request.

        Raises what `RunModels.upstream_for` raises of the run's weights.
        """
        key = f"fw-run-{secrets.token_hex(24)}"
        models, seconds = self.models, self.settings.model_seconds
        told = TaskModel(f"{self.address}/v1", self.address, key, models.name)
        upstream, recorded = models.upstream_for(weights), models.recorded_as(weights)
        self.runs[key] = RunCalls(told, upstream, models.tokens, seconds, recorded, advice.strip())
        try:
            yield self.runs[key]
        finally:
            del self.runs[key]

    def run_of(self, request: Request) -> RunCalls:
        """The run of a request's key. Raises NoSuchRun."""
        scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
        key = bearer.strip() if scheme.lower() == "bearer" else request.headers.get("x-api-key", "")
        found = self.runs.get(key)
        if found is None:
            raise NoSuchRun
        return found

    async def forward(self, request: Request, dialect: CallDialect) -> Response:
        """Answer one call. What fails is told in the caller's dialect."""
        try:
            run = self.run_of(request)
            body = await to_thread.run_sync(read_object, await self._body(request))
            if run.advice:
                body = dialect.advise(body, run.advice)  # what is recorded is what the model reads
            call = await to_thread.run_sync(dialect.read_call, body)
            upstream = check_upstream(run.upstream, dialect)
            upstream.weights_of(call.model)  # an unknown model is refused
            run.begin()
        except FlywheelError as problem:  # of what was asked, before any weights have to do with it
            return _refusal(dialect, problem, str(problem))
        opening = RunOpening(run="agent", token="run", group="agent", task="agent")  # noqa: S106 no secret
        terms, told = self.models.terms, run.message_of
        forwarding = Forwarding(run, upstream, dialect, opening, call, body, request.headers, terms, told)
        try:
            if not call.is_streamed:
                return JSONResponse(await forwarding.answer())
            parts = forwarding.stream()
            await anext(parts)
        except FlywheelError as problem:
            if is_server_failure(problem):
                run.lose(problem)
            return _refusal(dialect, problem, run.message_of(problem))
        return StreamingResponse(relay(parts), media_type="text/event-stream")

    async def list_models(self, request: Request) -> Response:
        """The one model that can be called."""
        try:
            self.run_of(request)
        except FlywheelError as problem:
            return _refusal(CHAT, problem, str(problem))
        listed = {"id": self.models.name, "object": "model", "created": 0, "owned_by": "flywheel"}
        return JSONResponse({"object": "list", "data": [listed]})

    async def _body(self, request: Request) -> bytes:
        most, found = self.settings.prompt_bytes, bytearray()
        async for part in request.stream():
            found += part
            if len(found) > most:
                raise PromptTooLarge(actual=f"more than {most} bytes", expected=most)
        return bytes(found)


def open_endpoint(
    settings: Settings, model: str | None = None, folder_of: FolderOf = no_checkpoints
) -> AbstractContextManager[RunEndpoint] | None:
    """The endpoint before the `model`, else before that of the settings; None if none is named.

    Of a base model in this process, checkpoints are in `folder_of`; entering it raises what local_host raises.
    """
    models = run_models(settings, model, folder_of)
    return None if models is None else _serve(settings, models)


@contextmanager
def _serve(settings: Settings, opening: AbstractContextManager[RunModels]) -> Iterator[RunEndpoint]:
    """Serve the endpoint on a free port of this machine until the end of the block."""
    with opening as models, listen("127.0.0.1", 0) as listening:
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        endpoint = RunEndpoint(settings, models, address)
        config = uvicorn.Config(
            _app(endpoint), log_level="error", access_log=False, lifespan="on", timeout_graceful_shutdown=1
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=partial(server.run, sockets=[listening]), daemon=True, name="run endpoint")
        thread.start()
        deadline = time.monotonic() + START_WITHIN_S
        while not server.started and thread.is_alive() and time.monotonic() < deadline:
            time.sleep(0.01)
        try:
            yield endpoint
        finally:
            server.should_exit = True
            thread.join()


def _app(endpoint: RunEndpoint) -> Starlette:
    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await endpoint.models.aclose()

    def route(dialect: CallDialect) -> Route:
        async def answer(request: Request) -> Response:
            return await endpoint.forward(request, dialect)

        return Route(f"/v1/{dialect.path}", answer, methods=["POST"])

    models = Route("/v1/models", endpoint.list_models, methods=["GET"])
    return Starlette(routes=[*map(route, (CHAT, COMPLETIONS, MESSAGES)), models], lifespan=lifespan)


def _refusal(dialect: CallDialect, problem: FlywheelError, message: str) -> Response:
    status = next((code for kind, code in _STATUS.items() if isinstance(problem, kind)), 400)
    if isinstance(problem, UpstreamAnswered):
        actual = int(problem.facts["actual"])  # type: ignore[call-overload]  # the status that the client gave
        status = actual if actual < 500 or actual == 529 else 502  # noqa: PLR2004  (a failure of the server behind)
    return JSONResponse(error_body(dialect.api, status, message, type(problem).__name__), status_code=status)
