"""Checks of the installation. Each check reports what it found and, if it fails, what to do."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Engine

from eventlog.chain import GENESIS, verify_chain
from eventlog.codec import decode
from eventlog.errors import FlywheelError
from eventlog.postgres import PostgresStore
from eventlog.store import START
from projections.engine.builds import bookmarks
from projections.engine.views import catch_up_views

from . import embedded, tokens
from .embedded.errors import HomeNotWritable
from .errors import NotSetUp
from .house import check_schema, open_house, project_engine
from .ports import listen
from .settings import Settings

OLDEST_PYTHON = (3, 11)
LEAST_FREE_BYTES = 500_000_000


@dataclass(frozen=True, slots=True)
class SetupCheck:
    """Result of one check. `is_required` is False for optional parts."""

    name: str
    ok: bool
    found: str
    is_required: bool = True


class _Failed(Exception):
    """Failure of a check that has no error class of its own."""


def checks(settings: Settings, *, port: int | None = None) -> Iterator[SetupCheck]:
    """Run every check in order. Checks that need the database are skipped if it cannot be reached."""
    yield _check("python", _python)
    yield _check("home", lambda: _home(settings.home))
    yield _check("port", lambda: _port(settings.host, settings.port if port is None else port))
    yield SetupCheck(
        "chromium",
        ok=True,
        found=str(settings.browser or "not installed (the browser executor is unavailable)"),
        is_required=False,
    )
    database = _check("database", lambda: _database(settings))
    yield database
    if not database.ok:
        return
    with project_engine(settings) as engine:
        schema = _check("schema", lambda: _schema(engine))
        yield schema
        if schema.ok:
            yield _check("log", lambda: _log(engine, settings))
            yield _check("projections", lambda: _projections(engine))
            yield _check("token", lambda: _token(settings))


def _check(name: str, look: Callable[[], str]) -> SetupCheck:
    try:
        return SetupCheck(name, ok=True, found=look())
    except (FlywheelError, _Failed) as error:
        return SetupCheck(name, ok=False, found=str(error))


def _python() -> str:
    found = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info[:2] < OLDEST_PYTHON:
        raise _Failed(f"Python {found}: expected 3.11 or newer; create the virtual environment with that")
    return found


def _home(home: Path) -> str:
    nearest = next(folder for folder in (home.absolute(), *home.absolute().parents) if folder.exists())
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise HomeNotWritable(home=home, actual=f"{nearest} may not be written to by this user")
    free = shutil.disk_usage(nearest).free
    if free < LEAST_FREE_BYTES:
        raise _Failed(
            f"{free // 1_000_000} MB are free under {nearest}: expected 500 or more; free space, or set FLYWHEEL_HOME"
        )
    return f"{home.absolute()} ({free // 1_000_000_000} GB free)"


def _port(host: str, port: int) -> str:
    listen(host, port).close()
    return f"{host}:{port} is free"


def _database(settings: Settings) -> str:
    if settings.is_embedded:
        found = embedded.status(settings.home)
        if not found.running and found.version is None:
            raise NotSetUp(actual=settings.home)
        if not found.running:
            raise _Failed(f"PostgreSQL is not running; its data is in {found.data}. Start it with `flywheel db up`")
    with project_engine(settings) as engine, engine.connect() as connection:
        version = connection.exec_driver_sql("SHOW server_version").scalar_one()
    return f"PostgreSQL {version}, {'embedded' if settings.is_embedded else 'external'}"


def _schema(engine: Engine) -> str:
    check_schema(engine)
    return "at the newest migration"


def _log(engine: Engine, settings: Settings) -> str:
    store = PostgresStore(engine, archive=settings.archive_folder)
    events = 0
    for row in verify_chain(store.read_stored(), after=START, previous=GENESIS):
        decode(row)
        events += 1
    return f"{events} events, all readable, chain valid"


def _projections(engine: Engine) -> str:
    for bookmark in bookmarks(engine):
        if bookmark.parked_at is not None:
            raise _Failed(
                f"{bookmark.projection} is parked at {bookmark.parked_at}: {bookmark.parked_error}; fix it, then run"
                f" `flywheel replay --rebuild --projection {bookmark.projection}`"
            )
    return "none is parked"


def _token(settings: Settings) -> str:
    with closing(open_house(settings)) as house:
        views = catch_up_views(house.projector, house.engine, house.store)
        if settings.token is not None:
            if not tokens.is_accepted(views, settings.token.get_secret_value()):
                raise _Failed(
                    "the token in FLYWHEEL_TOKEN is not accepted: expected one that `flywheel token list` shows"
                )
            return "the token is accepted"
        if not tokens.has_any(views):
            raise _Failed("no token was issued; create one with `flywheel db up` or `flywheel token issue NAME`")
        return "at least one is accepted"
