"""Locks against duplicate work: one controller, admission and learner per site, one trainer per stage, one deliverer.

A lock lives as long as its database session. A controller and an admission append in that session, so they append
nothing once it is lost. Learning and training may then be done twice, which is harmless, because each of their appends
has a key made from the run, sweep or stage: the log holds it once.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, cast

import psycopg
from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DBAPIError

from eventlog.postgres import LockingSession

from .errors import ControllerBusy
from .house import House

_PATIENCE_S = 5.0
_PAUSE_S = 0.1
_KEY = "hashtextextended(current_schema() || '/' || :kind || '/' || :name, 0)"
_TRY = text(f"SELECT pg_try_advisory_lock({_KEY})")
_WAIT = text(f"SELECT pg_advisory_lock({_KEY})")
_TRY_SHARED = text(f"SELECT pg_try_advisory_xact_lock_shared({_KEY})")
_UNLOCK = text("SELECT pg_advisory_unlock_all()")


@contextmanager
def only_controller(house: House, site: str) -> Iterator[House]:
    """Hold the site's session lock. It is released when the process ends, `kill -9` included. Raises ControllerBusy.

    Yields the house to work with. It appends in the session that holds the lock, so once its connection is lost, every
    append raises LockLost. Waits a few seconds for the lock, because a process that was just killed may still hold it.
    """
    with _session(house.engine) as connection:
        deadline = time.monotonic() + _PATIENCE_S
        while not connection.execute(_TRY, {"kind": "controller", "name": site}).scalar_one():
            if time.monotonic() > deadline:
                raise ControllerBusy(site=site)
            time.sleep(_PAUSE_S)
        with _appending_in(connection, house, f"the controller of {site}") as own:
            yield own


def is_controlled(engine: Engine, site: str) -> bool:
    """True if a controller is working on the site now."""
    with engine.begin() as connection:  # a shared lock: concurrent checks do not block each other
        return not connection.execute(_TRY_SHARED, {"kind": "controller", "name": site}).scalar_one()


@contextmanager
def admitting_alone(house: House, site: str) -> Iterator[House]:
    """Hold the site's admission lock, waiting for it. Of several workers that start together only one probes.

    Yields the house to work with, as only_controller does: a report that came late could end the admission by another.
    """
    with (
        _waiting_for(house.engine, "admission", site) as connection,
        _appending_in(connection, house, f"the admission of {site}") as own,
    ):
        yield own


@contextmanager
def learning_alone(engine: Engine, site: str) -> Iterator[None]:
    """Hold the site's learning lock, waiting for it. A second process then finds the sweep already processed."""
    with _waiting_for(engine, "learning", site):
        yield


@contextmanager
def training_alone(engine: Engine, training: str) -> Iterator[None]:
    """Hold the stage's training lock, waiting for it. A second process then finds the checkpoint already saved."""
    with _waiting_for(engine, "training", training):
        yield


@contextmanager
def mirroring_alone(engine: Engine, registry: str) -> Iterator[None]:
    """Hold the lock of the process that mirrors the champion to a registry, waiting for it."""
    with _waiting_for(engine, "mirror", registry):
        yield


@contextmanager
def only_deliverer(house: House) -> Iterator[House | None]:
    """Hold the lock of the process that delivers to webhooks; yields None if another process holds it.

    The house that it yields appends in the session of the lock, as with only_controller.
    """
    with _session(house.engine) as connection:
        if not connection.execute(_TRY, {"kind": "deliverer", "name": "webhooks"}).scalar_one():
            yield None
            return
        with _appending_in(connection, house, "the delivery to webhooks") as own:
            yield own


@contextmanager
def _waiting_for(engine: Engine, kind: str, name: str) -> Iterator[Connection]:
    with _session(engine) as connection:
        connection.execute(_WAIT, {"kind": kind, "name": name})
        yield connection


@contextmanager
def _session(engine: Engine) -> Iterator[Connection]:
    """A session for a lock, ended at the end of the block."""
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        try:
            yield connection
        finally:
            _end(connection)


@contextmanager
def _appending_in(connection: Connection, house: House, lock: str) -> Iterator[House]:
    """The house, which appends in this session. A thread that outlives the block appends nothing.

    The session is unlocked and closed while no other thread has its turn: no append comes between the two.
    """
    driver = cast("psycopg.Connection[Any]", connection.connection.driver_connection)
    session = LockingSession(driver.cursor(binary=True), lock)
    try:
        yield replace(house, store=replace(house.store, session=session))
    finally:
        with session.turn:
            _end(connection)


def _end(connection: Connection) -> None:
    """Release the locks of a session at once and close it, so that no lock returns to the pool with it."""
    if not connection.invalidated:
        with suppress(DBAPIError):  # a lost connection holds no lock
            connection.execute(_UNLOCK)
        connection.invalidate()
