"""The remote executor of the settings: the address, the token and the limits of another Flywheel."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from hashlib import sha256
from threading import Event, current_thread, main_thread
from types import FrameType

from agents.executors.remote.executor import RemotePolicies, RemoteTerms
from agents.executors.remote.flywheel import RemoteFlywheel

from ..errors import NoRemote
from ..settings import Settings


@contextmanager
def remote_policies(settings: Settings, model: str | None = None) -> Iterator[RemotePolicies]:
    """The policies of another Flywheel. At the first Ctrl-C their runs are called off there.

    Raises NoRemote, BadEndpoint.
    """
    if settings.remote_url is None or settings.remote_token is None:
        name = "FLYWHEEL_REMOTE_URL" if settings.remote_url is None else "FLYWHEEL_REMOTE_TOKEN"
        raise NoRemote(actual=name)
    terms = RemoteTerms(
        store=settings.remote_store,
        minutes=settings.remote_minutes,
        origin=_origin(settings),
        model=settings.remote_model if model is None else model,
        dollars=settings.remote_dollars,
        offers_logprobs=settings.remote_logprobs,
    )
    with closing(RemoteFlywheel(settings.remote_url, settings.remote_token)) as flywheel:
        playing = RemotePolicies(flywheel, terms)
        with _setting_at_interrupt(playing.stop):
            yield playing


def _origin(settings: Settings) -> str:
    """Digest of this machine and log, so that logs which share a token do not call off each other's runs."""
    url = settings.database_url.get_secret_value() if settings.database_url else str(settings.home.resolve())
    return sha256("\n".join((socket.gethostname(), url, settings.project)).encode()).hexdigest()


@contextmanager
def _setting_at_interrupt(stop: Event) -> Iterator[None]:
    """Set an event at Ctrl-C, before what is done at Ctrl-C anyway. In a thread other than the main one, do nothing."""
    before = signal.getsignal(signal.SIGINT)
    if current_thread() is not main_thread() or not callable(before):
        yield
        return

    def set_and_go_on(number: int, frame: FrameType | None) -> None:
        stop.set()
        before(number, frame)

    signal.signal(signal.SIGINT, set_and_go_on)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
