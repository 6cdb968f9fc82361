"""Locks against duplicate work: one controller, one admission and one learner per site, one trainer per stage."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from typing import Any, cast

import psycopg
from sqlalchemy import Engine, text
from sqlalchemy.exc import DBAPIError

from eventlog.postgres import LockingSession

from .errors import ControllerBusy
from .house import House

_PATIENCE_S = 5.0
_PAUSE_S = 0.1
_KEY = "hashtextextended(current_schema() || '/controller/' || :site, 0)"


@contextmanager
def only_controller(house: House, site: str) -> Iterator[House]:
    """Hold the site's session lock. It is released when the process ends, `kill -9` included. Raises ControllerBusy.

    Yields the house to work with. It appends in the session that holds the lock, so once its connection is lost, every
    append raises LockLost. Waits a few seconds for the lock, because a process that was just killed may still hold it.
    """
    statement = text(f"SELECT pg_try_advisory_lock({_KEY})")
    with house.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        deadline = time.monotonic() + _PATIENCE_S
        while not connection.execute(statement, {"site": site}).scalar_one():
            if time.monotonic() > deadline:
                raise ControllerBusy(site=site)
            time.sleep(_PAUSE_S)
        driver = cast("psycopg.Connection[Any]", connection.connection.driver_connection)
        session = LockingSession(driver.cursor(binary=True), f"the controller of {site}")
        try:
            yield replace(house, store=replace(house.store, session=session))
        finally:
            with suppress(DBAPIError):  # a lost connection holds no lock
                connection.execute(text("SELECT pg_advisory_unlock_all()"))
            connection.invalidate()  # a thread that outlives the block must not append in the session's next use


def is_controlled(engine: Engine, site: str) -> bool:
    """True if a controller is working on the site now."""
    with engine.begin() as connection:
        statement = text(
            f"SELECT pg_try_advisory_xact_lock_shared({_KEY})"
        )  # shared: concurrent checks do not block each other
        return not connection.execute(statement, {"site": site}).scalar_one()


def admitting_alone(engine: Engine, site: str) -> AbstractContextManager[None]:
    """Hold the site's admission lock, waiting for it. Of several workers that start together only one probes."""
    return _alone(engine, "admission", site)


def learning_alone(engine: Engine, site: str) -> AbstractContextManager[None]:
    """Hold the site's learning lock, waiting for it. A second process then finds the sweep already processed."""
    return _alone(engine, "learning", site)


def training_alone(engine: Engine, training: str) -> AbstractContextManager[None]:
    """Hold the stage's training lock, waiting for it. A second process then finds the checkpoint already saved."""
    return _alone(engine, "training", training)


@contextmanager
def _alone(engine: Engine, kind: str, name: str) -> Iterator[None]:
    """Hold a session lock, waiting for it."""
    statement = text(f"SELECT pg_advisory_lock(hashtextextended(current_schema() || '/{kind}/' || :name, 0))")
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(statement, {"name": name})
        try:
            yield
        finally:
            connection.execute(text("SELECT pg_advisory_unlock_all()"))
