"""Back-pressure: bounds of the bodies that are being received and of the appends in flight. Beyond them, 429.

A body is received before its append takes a place. So slow senders keep no append from its place, and each token holds
only so many of the places of bodies. The body of a blob keeps its place until it is stored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property

from anyio import CapacityLimiter
from fastapi import FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send

from eventlog.errors import LogBusy

from ..house import House
from .errors import TooManyBodies, TooManyBytes, TooManyStreams
from .problems import refusal

APPENDS = ("POST", "/v1/events")
THREADS = 64
"""Appends that may wait in the store at once: what group commit can merge."""

STREAMS_PER_TOKEN = 16
STREAMS = 64
"""Streams of the log that may be open at once; each asks the log for its head twice a second."""


class Places:
    """Places of one application: its appends in flight, and by token the bodies being received. For one event loop."""

    def __init__(self) -> None:
        self._appends = 0
        self._bodies = Counter[str]()
        self._streams = Counter[str]()
        self.bytes_held = 0

    @cached_property
    def _threads(self) -> CapacityLimiter:
        return CapacityLimiter(THREADS)

    def refuse_when_full(self, house: House) -> None:
        """Raise LogBusy if as many appends are in flight as may be."""
        most = house.settings.append_queue
        if self._appends >= most:
            house.store.group.refuse()
            raise LogBusy(actual=self._appends, expected=most)

    @contextmanager
    def take_append(self, house: House) -> Iterator[CapacityLimiter]:
        """Count an append; yield the threads that appends wait on, which no other request needs. Raises LogBusy."""
        self.refuse_when_full(house)
        self._appends += 1
        try:
            yield self._threads
        finally:
            self._appends -= 1

    @contextmanager
    def take_body(self, house: House, token: str) -> Iterator[None]:
        """Count a body of a token within the block. Raises TooManyBodies."""
        own, every = self._bodies[token], self._bodies.total()
        if own >= house.settings.bodies_per_token:
            raise TooManyBodies(what=f"of the token {token!r}", actual=own, setting="FLYWHEEL_BODIES_PER_TOKEN")
        if every >= house.settings.bodies:
            raise TooManyBodies(what="of all tokens", actual=every, setting="FLYWHEEL_BODIES")
        self._bodies[token] += 1
        try:
            yield
        finally:
            self._bodies[token] -= 1

    @contextmanager
    def take_stream(self, token: str) -> Iterator[None]:
        """Count an open stream of a token within the block. Raises TooManyStreams."""
        for what, actual, most in (
            (f"of the token {token!r}", self._streams[token], STREAMS_PER_TOKEN),
            ("of all tokens", self._streams.total(), STREAMS),
        ):
            if actual >= most:
                raise TooManyStreams(what=what, actual=actual)
        self._streams[token] += 1
        try:
            yield
        finally:
            self._streams[token] -= 1


class ByteLease:
    """The bytes of one body, counted among those of all callers from their arrival until the release."""

    def __init__(self, places: Places, most: int) -> None:
        self._places, self._most = places, most
        self._own = 0

    def add(self, count: int) -> None:
        """Count bytes that have arrived. Raises TooManyBytes."""
        if self._places.bytes_held + count > self._most:
            raise TooManyBytes(actual=self._places.bytes_held, expected=self._most)
        self._places.bytes_held += count
        self._own += count

    def release(self) -> None:
        """Give the bytes back. A second time does nothing."""
        self._places.bytes_held -= self._own
        self._own = 0


def lease_bytes(app: FastAPI, house: House) -> ByteLease:
    """A lease for the body of one request."""
    return ByteLease(places_of(app), house.settings.body_bytes)


def places_of(app: FastAPI) -> Places:
    """The places of an application."""
    places: Places = app.state.places
    return places


class Admission:
    """Middleware that refuses appends while all their places are taken, at once and before they take a thread."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it; all but appends are passed on."""
        if scope["type"] == "http" and (scope["method"], scope["path"].rstrip("/")) == APPENDS:
            try:
                places_of(scope["app"]).refuse_when_full(scope["app"].state.house)
            except LogBusy as busy:
                await refusal(busy)(scope, receive, send)
                return
        await self._app(scope, receive, send)
