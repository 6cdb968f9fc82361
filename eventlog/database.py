"""A connection to one project's schema, checked before first use."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import psycopg
from sqlalchemy import Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from .errors import BadProjectName, DatabaseRefused, LogUnavailable, OldServer

OLDEST_SERVER = 15
_PREFIX = "flywheel_"
_PROJECT = re.compile(r"[a-z][a-z0-9_]{0,39}")
_CURSOR = "cursor of single statements"
_GONE = ("08", "57P")
"""SQLSTATE classes of a server that is lost, shutting down or starting."""


def schema_name(project: str) -> str:
    """Name of the schema that holds a project's log. Raises BadProjectName."""
    if not _PROJECT.fullmatch(project):
        raise BadProjectName(actual=project)
    return f"{_PREFIX}{project}"


def project_schema(engine: Engine) -> str:
    """The schema an engine was opened on."""
    return str(engine.get_execution_options()["project_schema"])


def project_of(engine: Engine) -> str:
    """The project an engine was opened on."""
    return project_schema(engine).removeprefix(_PREFIX)


def open_engine(url: str, project: str = "default", *, pool_size: int = 8) -> Engine:
    """An engine whose search_path is one project's schema. Raises LogUnavailable, OldServer, BadProjectName."""
    schema = schema_name(project)
    try:
        parsed = make_url(url)
        if parsed.get_backend_name() not in {"postgresql", "postgres"}:
            raise LogUnavailable(actual=f"its URL is for {parsed.get_backend_name()}, not for postgresql")
        parsed = parsed.set(drivername="postgresql+psycopg")
        engine = create_engine(
            parsed,
            hide_parameters=True,
            pool_size=pool_size,
            max_overflow=16,
            execution_options={"project_schema": schema},
        )
        event.listen(engine, "connect", _on_connect(schema))
        with engine.connect() as connection:
            version = connection.exec_driver_sql("SHOW server_version_num").scalar_one()
    except (SQLAlchemyError, DBAPIError, ValueError) as error:
        raise LogUnavailable(actual=first_line(error)) from error
    if int(version) < OLDEST_SERVER * 10_000:
        engine.dispose()
        raise OldServer(actual=int(version) // 10_000, expected=OLDEST_SERVER)
    return engine


def _on_connect(schema: str) -> Any:
    def set_search_path(connection: Any, _record: object) -> None:
        with connection.cursor() as cursor:
            cursor.execute(f'SET search_path = "{schema}", pg_temp')
            cursor.execute("SET TimeZone = 'UTC'")
            cursor.execute("SET idle_in_transaction_session_timeout = '60s'")
            cursor.execute("SET jit = off")
        connection.commit()

    return set_search_path


@contextmanager
def single_statements(engine: Engine) -> Iterator[psycopg.Cursor[Any]]:
    """A binary cursor in autocommit mode: each statement is its own transaction and one round trip.

    The cursor is cached with its connection, so prepared statements stay prepared. Raises the engine's errors.
    """
    with engine.connect() as connection:
        driver = cast("psycopg.Connection[Any]", connection.connection.driver_connection)
        kept = connection.connection.info
        try:
            driver.autocommit = True
            if _CURSOR not in kept:
                kept[_CURSOR] = driver.cursor(binary=True)
            yield kept[_CURSOR]
        except psycopg.Error as error:
            raise _translate_error(connection, error) from error
        finally:
            if not driver.closed:
                driver.autocommit = False


def _translate_error(connection: Connection, error: psycopg.Error) -> DBAPIError:
    """The psycopg error as SQLAlchemy's DBAPIError. Invalidates a lost connection, so that the pool drops it."""
    is_lost = bool(getattr(connection.connection.driver_connection, "closed", True))
    if is_lost:
        connection.invalidate(error)
    named = DBAPIError.instance(
        "a statement", None, error, psycopg.Error, hide_parameters=True, connection_invalidated=is_lost
    )
    return cast("DBAPIError", named)


def database_error(error: BaseException) -> LogUnavailable | DatabaseRefused:
    """What an error of the driver or of SQLAlchemy means: the server is gone, or it answered and refused."""
    code = getattr(getattr(error, "orig", None) or error, "sqlstate", None)
    if code is None or getattr(error, "connection_invalidated", False) or code.startswith(_GONE):
        return LogUnavailable(actual=first_line(error))
    return DatabaseRefused(actual=first_line(error), code=code)


def first_line(error: BaseException) -> str:
    """First line of the database's message, without statement and parameters."""
    cause = getattr(error, "orig", None) or error
    return (str(cause).strip().splitlines() or [type(cause).__name__])[0]
