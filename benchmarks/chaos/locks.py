"""Ends the connection that holds a controller's lock, and checks that the controller appends nothing after that."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Event

from pydantic import SecretStr
from sqlalchemy import Engine, text

from api.house import House, open_house
from api.locks import only_controller
from api.settings import Settings
from eventlog.errors import LockLost
from eventlog.events import MemoryQuarantined
from eventlog.store import Append, Position

from .cluster import Cluster

_PROJECT = "locks"
_SITE = "marketplace"
_TURNS = 20
_TRIES_AFTER = 20
_HOLDERS = text(
    "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    " AND pid <> pg_backend_pid() AND mode = 'ExclusiveLock'"
)


def lost_locks(cluster: Cluster) -> dict[str, float]:
    """Take the lock, lose it under load, let another controller take it; repeat. Count what came too late."""
    url = cluster.project(_PROJECT)
    house = open_house(Settings(database_url=SecretStr(url), project=_PROJECT))
    refused = late = 0
    try:
        for turn in range(_TURNS):
            with only_controller(house, _SITE) as own, ThreadPoolExecutor(1) as pool:
                is_taken = Event()
                appending = pool.submit(_append_until_lost, own, f"first {turn}", is_taken)
                _end_holders(house.engine)
                with only_controller(house, _SITE) as other:
                    taken = other.store.append([_request(f"second {turn}")])[0]
                    is_taken.set()
                    refused += appending.result()
            since = Position(getattr(taken, "first", 0))
            late += sum(each.actor == f"first {turn}" for each in house.store.read(after=since))
    finally:
        house.close()
    return {
        "lock: times lost": float(_TURNS),
        "lock: appends refused": float(refused),
        "lock: events after another took it": float(late),
    }


def _append_until_lost(own: House, actor: str, is_taken: Event) -> int:
    """Append until the lock is lost and another controller has taken it, and then some more; count the refusals."""
    refused = after = 0
    while after < _TRIES_AFTER:
        after += is_taken.is_set()
        try:
            own.store.append([_request(actor)])
        except LockLost:
            refused += 1
    return refused


def _request(actor: str) -> Append:
    event = MemoryQuarantined(piece="p", kind="rewrite", restored=0, reason="chaos")
    return Append("locks", (event,), actor)


def _end_holders(engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(_HOLDERS).all()
