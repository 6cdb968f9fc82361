"""The remote executor of the settings: the address, the token and the limits of another Flywheel."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from threading import Event, current_thread, main_thread
from types import FrameType

from agents.executors.remote.executor import RemotePolicies, RemoteTerms
from agents.executors.remote.flywheel import RemoteFlywheel
from eventlog.postgres import PostgresStore
from eventlog.store import Position
from projections.runs import REMOTE

from ..errors import NoRemote, WrongWay
from ..settings import Settings


@contextmanager
def remote_policies(
    settings: Settings, log: PostgresStore | None, model: str | None = None
) -> Iterator[RemotePolicies]:
    """The policies of another Flywheel. At the first Ctrl-C their runs are called off there.

    Raises WrongWay without the log that the runs are of, NoRemote, BadEndpoint, ArchiveMissing.
    """
    if log is None:
        raise WrongWay(actual=REMOTE, expected="policy")
    if settings.remote_url is None or settings.remote_token is None:
        name = "FLYWHEEL_REMOTE_URL" if settings.remote_url is None else "FLYWHEEL_REMOTE_TOKEN"
        raise NoRemote(actual=name)
    origin = log_name(log)  # now, so that a command ends at once whose log has its first event in a lost archive
    terms = RemoteTerms(
        store=settings.remote_store,
        minutes=settings.remote_minutes,
        origin=cache(lambda: origin or log_name(log)),
        model=settings.remote_model if model is None else model,
        dollars=settings.remote_dollars,
        offers_logprobs=settings.remote_logprobs,
    )
    with closing(RemoteFlywheel(settings.remote_url, settings.remote_token)) as flywheel:
        playing = RemotePolicies(flywheel, terms)
        with _setting_at_interrupt(playing.stop):
            yield playing


def log_name(log: PostgresStore) -> str:
    """The chain value of a log's first event: its own on any machine and under any address; empty for an empty log."""
    first = next(log.read_stored(upto=Position(1)), None)
    return "" if first is None else first.chain.hex()


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
