"""A connection to one project's schema, checked before first use."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, repeat
from time import monotonic, sleep
from typing import Any, cast

import psycopg
from sqlalchemy import Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from .errors import BadProjectName, DatabaseRefused, LogUnavailable, OldServer, OutageTooLong, StatementEnded

OLDEST_SERVER = 15
MOST_CONNECTIONS = 24
"""Most connections of one process. Those that were once needed at the same time are kept: a call of a model that has
to open one waits 40 ms for it where 16 come at once."""

_PAUSES_S = (0.1, 0.2, 0.5, 1.0)
_LONGEST_PAUSE_S = 2.0
_ENDING = frozenset({"57P01", "57P02", "57P03"})
"""SQLSTATE of a server that shuts down, has crashed, or does not accept connections yet."""
_ENDED_EARLY = frozenset({"40001", "40P01", "55P03", "57014"})
"""SQLSTATE of a transaction conflict, a deadlock, a lock timeout, a cancelled statement: another try may succeed."""
_PREFIX = "flywheel_"
_PROJECT = re.compile(r"[a-z][a-z0-9_]{0,39}")
_CURSOR = "cursor of single statements"


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


@dataclass(frozen=True, slots=True)
class OutagePatience:
    """How long a new connection waits for a database that does not answer: at most `outage_s` seconds.

    It stops waiting early if `is_over` returns True.
    """

    outage_s: float
    is_over: Callable[[], bool] = lambda: False


def open_engine(
    url: str, project: str = "default", *, pool_size: int = MOST_CONNECTIONS, patience: OutagePatience | None = None
) -> Engine:
    """An engine whose search_path is one project's schema. Raises LogUnavailable, OldServer, BadProjectName.

    With `patience`, an outage that begins later is waited for, and then raises OutageTooLong; only a statement that was
    under way when it began fails with a lost connection.
    """
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
            max_overflow=max(0, MOST_CONNECTIONS - pool_size),
            pool_pre_ping=patience is not None,
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
    if patience is not None:
        event.listen(engine, "do_connect", _patient_connect(patience))
    return engine


def _patient_connect(patience: OutagePatience) -> Callable[..., Any]:
    def connect(dialect: Any, _record: object, arguments: Any, parameters: Any) -> Any:
        began, pauses = monotonic(), reconnect_pauses()
        while True:
            try:
                return dialect.connect(*arguments, **parameters)
            except psycopg.OperationalError as error:
                waited = monotonic() - began
                if patience.is_over() or waited > patience.outage_s:
                    raise OutageTooLong(waited_s=waited, actual=first_line(error)) from error
            sleep(next(pauses))

    return connect


def reconnect_pauses() -> Iterator[float]:
    """Seconds to pause after each failed attempt to reach a lost database: short at first, then always the longest."""
    return chain(_PAUSES_S, repeat(_LONGEST_PAUSE_S))


def is_connection_lost(error: BaseException | None) -> bool:
    """True if an error, or one that caused it, says that a connection to the database was lost or could not be made."""
    while error is not None and not isinstance(error, OutageTooLong):
        if isinstance(error, DBAPIError) and error.connection_invalidated:
            return True
        if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
            return _is_gone(error.sqlstate)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return False


def _is_gone(state: str | None) -> bool:
    """True if an SQLSTATE (None: the server gave none) says that there is no server to talk to."""
    return state is None or state in _ENDING or state.startswith("08")


def _on_connect(schema: str) -> Any:
    def set_search_path(connection: Any, _record: object) -> None:
        with connection.cursor() as cursor:
            cursor.execute(f'SET search_path = "{schema}", pg_temp')
            cursor.execute("SET TimeZone = 'UTC'")
            cursor.execute("SET idle_in_transaction_session_timeout = '60s'")
            cursor.execute("SET jit = off")
        connection.commit()

    return set_search_path


def read_connection(engine: Engine) -> Connection:
    """A connection in autocommit mode: each statement sees what is committed when it begins, in one round trip."""
    return engine.connect().execution_options(isolation_level="AUTOCOMMIT")


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
            if driver.closed:
                connection.invalidate(error)  # so that the pool drops it
            raise translate_error(error, is_lost=bool(driver.closed)) from error
        finally:
            if not driver.closed:
                driver.autocommit = False


def translate_error(error: psycopg.Error, *, is_lost: bool) -> DBAPIError:
    """The psycopg error as SQLAlchemy's DBAPIError. `is_lost`: the connection was lost."""
    named = DBAPIError.instance(
        "a statement", None, error, psycopg.Error, hide_parameters=True, connection_invalidated=is_lost
    )
    return cast("DBAPIError", named)


def database_error(error: BaseException) -> LogUnavailable | StatementEnded | DatabaseRefused:
    """The named error for one of the driver or SQLAlchemy: the server is gone, gave up for the moment, or refused."""
    code = getattr(getattr(error, "orig", None) or error, "sqlstate", None)
    if getattr(error, "connection_invalidated", False) or _is_gone(code):
        return LogUnavailable(actual=first_line(error))
    if code in _ENDED_EARLY:
        return StatementEnded(actual=first_line(error), code=code)
    return DatabaseRefused(actual=first_line(error), code=code)


def first_line(error: BaseException) -> str:
    """First line of the database's message, without statement and parameters."""
    cause = getattr(error, "orig", None) or error
    return (str(cause).strip().splitlines() or [type(cause).__name__])[0]
