"""Bodies that are too large, too slow or cut off hold neither memory nor a place among the appends."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Callable, MutableMapping, Sequence
from dataclasses import replace
from typing import Any, cast

import pytest
from fastapi import FastAPI

from api.app import create_app
from api.house import House
from api.routes import bodies
from api.routes.small_bodies import MOST_BYTES
from api.tokens import issue
from eventlog.blobs import Blob
from eventlog.errors import FlywheelError, SubjectGone

from .test_rest_time import EVERY

MESSAGE = MutableMapping[str, Any]
LIMIT = 100_000


class Sender:
    """A caller that sends a body part by part, and counts how much of it was taken."""

    def __init__(self, app: FastAPI, token: str, path: str = "/v1/events", **headers: str) -> None:
        self.taken = 0
        self.answers: list[MESSAGE] = []
        told = {"authorization": f"Bearer {token}", **headers}
        self._scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "POST",
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": [(name.encode(), value.encode()) for name, value in told.items()],
        }
        self._app = app

    async def send(self, parts: AsyncIterator[bytes]) -> tuple[int, MESSAGE]:
        """Send the parts; the status and the error of the answer."""

        async def receive() -> MESSAGE:
            try:
                part = await anext(parts)
            except StopAsyncIteration:
                return {"type": "http.request", "body": b"", "more_body": False}
            except ConnectionError:
                return {"type": "http.disconnect"}
            self.taken += len(part)
            return {"type": "http.request", "body": part, "more_body": True}

        async def answer(message: MESSAGE) -> None:
            self.answers.append(message)

        await self._app(self._scope, receive, answer)
        body = b"".join(message.get("body", b"") for message in self.answers)
        return self.answers[0]["status"], json.loads(body).get("error", {})

    @property
    def headers(self) -> dict[str, str]:
        """The headers of the answer."""
        return {name.decode(): value.decode() for name, value in self.answers[0]["headers"]}


@pytest.fixture
def house(empty_house: House) -> House:
    """A house that takes small bodies for a short time."""
    bounds = {"append_bytes": LIMIT, "body_seconds": 1, "append_queue": 1, "bodies": 3, "bodies_per_token": 2}
    return replace(empty_house, settings=empty_house.settings.model_copy(update=bounds))


@pytest.fixture
def app(house: House) -> FastAPI:
    """The application over that house."""
    return create_app(house)


@pytest.fixture
def token(house: House) -> str:
    """A token that is accepted."""
    return issue(house.store, "sender", "test")


async def endless() -> AsyncIterator[bytes]:
    while True:
        yield b" " * 10_000


async def silent() -> AsyncIterator[bytes]:
    yield b"{"
    await asyncio.sleep(60)


async def nothing() -> AsyncIterator[bytes]:
    empty: tuple[bytes, ...] = ()
    for part in empty:
        yield part


async def cut() -> AsyncIterator[bytes]:
    yield b"{"
    raise ConnectionError


def test_an_append_that_is_too_large_is_refused_before_it_was_read(app: FastAPI, token: str) -> None:
    announced = Sender(app, token, **{"content-length": str(LIMIT + 1)})
    status, error = asyncio.run(announced.send(endless()))
    assert (status, error["type"], announced.taken) == (413, "AppendTooLarge", 0)
    assert "FLYWHEEL_APPEND_BYTES" in error["message"]
    assert "POST /v1/blobs" in error["message"]


def test_an_append_of_unannounced_length_is_read_no_further_than_the_bound(app: FastAPI, token: str) -> None:
    chunked = Sender(app, token)
    status, error = asyncio.run(chunked.send(endless()))
    assert (status, error["type"]) == (413, "AppendTooLarge")
    assert chunked.taken <= LIMIT + 10_000


@pytest.mark.parametrize("path", ["/v1/events", "/v1/blobs"])
def test_a_body_that_does_not_arrive_in_time_is_408_and_the_connection_ends(
    app: FastAPI, token: str, path: str
) -> None:
    began = time.monotonic()
    slow = Sender(app, token, path)
    status, error = asyncio.run(slow.send(silent()))
    assert (status, error["type"], slow.headers["connection"]) == (408, "BodyTooSlow", "close")
    assert "FLYWHEEL_BODY_SECONDS" in error["message"]
    assert 0.9 < time.monotonic() - began < 10


def test_a_body_that_keeps_coming_gets_more_time(app: FastAPI, token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "BYTES_PER_SECOND", 10_000)

    async def steady() -> AsyncIterator[bytes]:
        for _ in range(8):
            yield b" " * 5_000
            await asyncio.sleep(0.2)

    status, error = asyncio.run(Sender(app, token).send(steady()))
    assert (status, error["type"]) == (422, "Unprocessable")  # it was read to its end, and holds no append


@pytest.mark.parametrize("path", ["/v1/events", "/v1/blobs"])
def test_slow_senders_hold_only_places_of_their_own_token_and_give_them_back(
    house: House, token: str, path: str
) -> None:
    """No append waits for its place because of them, and the bound of all tokens holds too."""
    app = create_app(replace(house, settings=house.settings.model_copy(update={"body_seconds": 60})))
    other, third = (issue(house.store, name, "test") for name in ("other", "third"))
    whole = 422 if path == "/v1/events" else 201

    async def crowded() -> None:
        slow: list[tuple[asyncio.Task[tuple[int, MESSAGE]], asyncio.Event]] = []

        async def begin(holder: str) -> None:
            reached, release = asyncio.Event(), asyncio.Event()

            async def parts() -> AsyncIterator[bytes]:
                yield b"{"
                reached.set()
                await release.wait()

            slow.append((asyncio.create_task(Sender(app, holder, path).send(parts())), release))
            await reached.wait()

        async def refused(holder: str) -> tuple[int, str, str]:
            sender = Sender(app, holder, path)
            status, error = await sender.send(nothing())
            return status, error["facts"]["setting"], sender.headers["retry-after"]

        await begin(token)
        await begin(token)
        assert await refused(token) == (429, "FLYWHEEL_BODIES_PER_TOKEN", "1")
        assert (await Sender(app, other, path).send(nothing()))[0] == whole
        await begin(other)
        assert await refused(third) == (429, "FLYWHEEL_BODIES", "1")
        for sending, release in slow:
            release.set()
            assert (await sending)[0] == whole
        assert (await Sender(app, token, path).send(nothing()))[0] == whole

    asyncio.run(asyncio.wait_for(crowded(), 60))


@pytest.mark.parametrize(("path", "whole"), [("/v1/events", 422), ("/v1/blobs", 201)])
@pytest.mark.parametrize(("parts", "status"), [(silent, 408), (cut, 400)])
def test_a_body_that_came_too_late_or_was_cut_off_gives_its_place_back(
    app: FastAPI, token: str, path: str, whole: int, parts: Callable[[], AsyncIterator[bytes]], status: int
) -> None:
    async def late() -> list[int]:
        slow = await asyncio.gather(*(Sender(app, token, path).send(parts()) for _ in range(2)))
        return [*(found for found, _ in slow), (await Sender(app, token, path).send(nothing()))[0]]

    assert asyncio.run(late()) == [status, status, whole]


class SlowBlobs:
    """A store of blobs that keeps nothing before it is let go, and then fails if it was told to."""

    def __init__(self, fault: FlywheelError | None) -> None:
        self.reached, self.go_on = threading.Semaphore(0), threading.Event()
        self._fault = fault

    def put(self, blobs: Sequence[Blob], *, subject: str | None = None) -> tuple[str, ...]:
        self.reached.release()
        assert self.go_on.wait(30)
        if self._fault is not None:
            raise self._fault
        return tuple(blob.digest for blob in blobs)


@pytest.mark.parametrize(("fault", "status"), [(None, 201), (SubjectGone(actual="person"), 410)])
def test_a_blob_keeps_its_place_until_it_is_stored_or_refused(
    house: House, token: str, fault: FlywheelError | None, status: int
) -> None:
    store = SlowBlobs(fault)
    app = create_app(replace(house, blobs=cast("Any", store)))

    async def crowded() -> None:
        waiting = [asyncio.create_task(Sender(app, token, "/v1/blobs").send(nothing())) for _ in range(2)]
        for _ in waiting:
            assert await asyncio.to_thread(store.reached.acquire, timeout=30)
        refused = await Sender(app, token, "/v1/blobs").send(nothing())
        assert (refused[0], refused[1]["type"]) == (429, "TooManyBodies")
        store.go_on.set()
        again = Sender(app, token, "/v1/blobs")
        assert [(await each)[0] for each in waiting] == [status, status]
        assert (await again.send(nothing()))[0] == status

    asyncio.run(asyncio.wait_for(crowded(), 60))


def test_a_connection_that_ends_within_a_body_is_no_defect(
    app: FastAPI, token: str, caplog: pytest.LogCaptureFixture
) -> None:
    status, error = asyncio.run(Sender(app, token).send(cut()))
    assert (status, error["type"]) == (400, "BodyCut")
    assert caplog.records == []


# Routes whose body is a few fields ------------------------------------------------------------------------------------

LARGE = {"/v1/blobs", "/v1/events", "/v1/predict", "/v1/traces"}
"""Routes that bound their bodies themselves, because these may be large."""
NO_BODY = {"/v1/predict/{run_id}/cancel", "/v1/predict/{run_id}/resume"}
SMALL = sorted({path for method, path in EVERY if method != "GET"} - LARGE - NO_BODY)


@pytest.fixture
def operator(house: House) -> str:
    """A token that may call every route."""
    return issue(house.store, "operator", "test", "admin")


async def padded(size: int) -> AsyncIterator[bytes]:
    """A body that would be no mistake but for its length."""
    yield b"{" + b" " * (size - 2)
    yield b"}"


def test_there_are_routes_with_small_bodies() -> None:
    assert len(SMALL) >= 3


@pytest.mark.parametrize("path", SMALL)
@pytest.mark.parametrize("announced", [True, False], ids=["announced", "unannounced"])
def test_a_body_of_more_than_64_kib_is_refused_where_a_few_fields_are_expected(
    app: FastAPI, operator: str, path: str, *, announced: bool
) -> None:
    def send(size: int) -> tuple[int, MESSAGE, int]:
        told = {"content-length": str(size)} if announced else {}
        sender = Sender(app, operator, path, **{"content-type": "application/json", **told})
        return *asyncio.run(sender.send(padded(size))), sender.taken

    status, error, _ = send(MOST_BYTES)
    assert (status, error["type"]) == (422, "InvalidRequest")
    status, error, taken = send(MOST_BYTES + 1)
    assert (status, error["type"], error["facts"]["expected"]) == (413, "BodyTooLarge", MOST_BYTES)
    assert str(MOST_BYTES) in error["message"]
    assert taken == (0 if announced else MOST_BYTES + 1)


def test_an_endless_body_is_read_no_further_than_the_bound(app: FastAPI, operator: str) -> None:
    sender = Sender(app, operator, "/v1/slices", **{"content-type": "application/json"})
    status, error = asyncio.run(sender.send(endless()))
    assert (status, error["type"]) == (413, "BodyTooLarge")
    assert sender.taken <= MOST_BYTES + 10_000
    assert "x-log-position" in sender.headers


def test_a_small_body_that_does_not_arrive_in_time_is_408(app: FastAPI, operator: str) -> None:
    slow = Sender(app, operator, "/v1/slices", **{"content-type": "application/json"})
    status, error = asyncio.run(slow.send(silent()))
    assert (status, error["type"], slow.headers["connection"]) == (408, "BodyTooSlow", "close")
