"""One controller for each site of a project, one trainer for each stage, one who learns from a site's sweeps at a time.

Two would do the same things twice.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Engine, text

from .errors import ControllerBusy

_PATIENCE_S = 5.0
_PAUSE_S = 0.1
_ADMISSION = "hashtextextended(current_schema() || '/admission/' || :site, 0)"
_LEARNING = "hashtextextended(current_schema() || '/learning/' || :site, 0)"
_TRAINING = "hashtextextended(current_schema() || '/training/' || :training, 0)"
_KEY = "hashtextextended(current_schema() || '/controller/' || :site, 0)"


@contextmanager
def only_controller(engine: Engine, site: str) -> Iterator[None]:
    """Hold the site's session lock; it ends with the process, `kill -9` included. Raises ControllerBusy.

    A process that was just killed may hold it for a moment more, so there is some patience.
    """
    statement = text(f"SELECT pg_try_advisory_lock({_KEY})")
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        deadline = time.monotonic() + _PATIENCE_S
        while not connection.execute(statement, {"site": site}).scalar_one():
            if time.monotonic() > deadline:
                raise ControllerBusy(site=site)
            time.sleep(_PAUSE_S)
        try:
            yield
        finally:
            connection.execute(text("SELECT pg_advisory_unlock_all()"))


def is_controlled(engine: Engine, site: str) -> bool:
    """Whether a controller works on the site now: it plays what it has planned."""
    with engine.begin() as connection:
        statement = text(
            f"SELECT pg_try_advisory_xact_lock_shared({_KEY})"
        )  # those who only look do not see each other
        return not connection.execute(statement, {"site": site}).scalar_one()


@contextmanager
def admitting_alone(engine: Engine, site: str) -> Iterator[None]:
    """Wait until no other worker sees to the site's admission: of those that start together one probes it."""
    with _alone(engine, _ADMISSION, site=site):
        yield


@contextmanager
def learning_alone(engine: Engine, site: str) -> Iterator[None]:
    """Wait until nobody else learns from a sweep of the site: of two that found it ended, the second finds it done."""
    with _alone(engine, _LEARNING, site=site):
        yield


@contextmanager
def training_alone(engine: Engine, training: str) -> Iterator[None]:
    """Wait until nobody else trains or verifies this stage: of two that train it, the second finds its checkpoint."""
    with _alone(engine, _TRAINING, training=training):
        yield


@contextmanager
def _alone(engine: Engine, key: str, **named: str) -> Iterator[None]:
    """Hold a session lock; it is waited for."""
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text(f"SELECT pg_advisory_lock({key})"), named)
        try:
            yield
        finally:
            connection.execute(text("SELECT pg_advisory_unlock_all()"))
