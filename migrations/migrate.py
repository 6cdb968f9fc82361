"""Upgrade a project's schema to the newest migration, and grant the application role access to it."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, Engine, text

from eventlog.database import project_schema
from eventlog.errors import ForeignSchema, UnreleasedSchema

_AHEAD = 6_000_000
"""Positions beyond the head for which each migration reserves partitions; appending reserves more as needed."""
_FIRST = "0008"
"""The first released migration."""
_ADOPTED = "0007"
"""The migration before it, which has the same tables: a database at it is stamped as the first released one."""


def newest_revision() -> str:
    """The revision that this code expects, from the file name of the last migration. Does not import Alembic."""
    names = [file.stem for file in (Path(__file__).parent / "versions").glob("[0-9]*_*.py")]
    if not names:
        raise LookupError("no migration is installed beside migrations/migrate.py; expected at least one")
    return max(names).partition("_")[0]


def migrate(engine: Engine, *, app_role: str | None = None) -> None:
    """Create the schema if needed and upgrade it. Concurrent callers wait for one another, and appends for them.

    `engine` connects as the owner. `app_role` is granted the application's rights, none of which can change or delete
    events. Raises UnreleasedSchema, and ForeignSchema for a schema that a newer flywheel migrated.
    """
    from alembic import command
    from alembic.config import Config

    schema = project_schema(engine)
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    with engine.begin() as connection:
        _lock(connection, f"{schema}/migrate")
        _lock(connection, f"{schema}/append")  # before any table: an append that began may wait for none of them
        connection.execute(text(f'CREATE SCHEMA IF NOT EXISTS "{schema}"'))
        if connection.execute(text("SELECT to_regclass('migration')")).scalar() is not None:
            check_version(schema, version_of(connection), may_upgrade=True)
            _adopt(connection)
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
        connection.execute(
            text("SELECT reserve_partitions(coalesce(max(position), 0) + :ahead) FROM events"), {"ahead": _AHEAD}
        )
        if app_role is not None:
            _grant(connection, schema, app_role)


def _lock(connection: Connection, name: str) -> None:
    connection.execute(text("SELECT pg_advisory_xact_lock(hashtextextended(:name, 0))"), {"name": name})


def version_of(connection: Connection) -> str | None:
    """The schema's current migration, or None. Raises ProgrammingError if the migration table does not exist."""
    return connection.execute(text("SELECT version_num FROM migration")).scalar()


def check_version(schema: str, actual: str | None, *, may_upgrade: bool = False) -> None:
    """Raise ForeignSchema or UnreleasedSchema unless a schema is at the newest migration.

    With `may_upgrade`, an older schema that can be upgraded is accepted too. `actual` None means not migrated yet.
    """
    expected = newest_revision()
    if actual is not None and actual < _ADOPTED:
        raise UnreleasedSchema(schema=schema, actual=actual, expected=expected)
    is_newer = actual is not None and actual > expected
    if actual != expected and (is_newer or not may_upgrade):
        way_out = "A newer flywheel migrated it; upgrade flywheel." if is_newer else "Run `flywheel db migrate`."
        raise ForeignSchema(schema=schema, actual=actual or "none", expected=expected, way_out=way_out)


def _adopt(connection: Connection) -> None:
    """Stamp a schema at the last unreleased migration as the first released one, which has the same tables."""
    connection.execute(
        text("UPDATE migration SET version_num = :first WHERE version_num = :adopted"),
        {"first": _FIRST, "adopted": _ADOPTED},
    )


def _grant(connection: Connection, schema: str, role: str) -> None:
    quoted = '"' + role.replace('"', '""') + '"'
    for statement in (
        f'GRANT USAGE ON SCHEMA "{schema}" TO {quoted}',
        f'GRANT SELECT ON ALL TABLES IN SCHEMA "{schema}" TO {quoted}',
        f"GRANT INSERT ON {', '.join(_event_tables(connection))} TO {quoted}",
        f"GRANT EXECUTE ON FUNCTION append_events, append_request, judge_appends TO {quoted}",
        f"GRANT INSERT (address, size, encoding, subject, media_type, body), UPDATE (at) ON blobs TO {quoted}",
        f"GRANT INSERT, UPDATE, DELETE ON builds, fold_rows TO {quoted}",
        f"GRANT INSERT, UPDATE, DELETE ON procrastinate_jobs, procrastinate_workers, parked_jobs, profiles TO {quoted}",
        f"GRANT INSERT ON procrastinate_events TO {quoted}",
        f"GRANT UPDATE ON procrastinate_periodic_defers TO {quoted}",  # a job's removal unlinks it there
        f"GRANT USAGE ON SEQUENCE procrastinate_jobs_id_seq, procrastinate_events_id_seq TO {quoted}",
    ):
        connection.execute(text(statement))


def _event_tables(connection: Connection) -> list[str]:
    """Names of the events table and its partitions: COPY writes into the newest partition."""
    names = connection.execute(
        text("SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'events'::regclass ORDER BY 1")
    )
    return ["events", *names.scalars()]
