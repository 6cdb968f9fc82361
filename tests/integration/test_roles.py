"""The role script on a fresh database: what each role can do, and that it can do no more. Compared by the catalog."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import Engine, create_engine, make_url, text
from sqlalchemy.exc import DBAPIError

from api.embedded.binaries import binaries_folder
from api.settings import read_settings
from eventlog.blobs import Blob, PostgresBlobs
from eventlog.database import open_engine
from eventlog.postgres import PostgresStore
from eventlog.store import START, Append, Committed
from eventlog.verification import chain_at, store_on_one_connection, verify_log
from migrations.migrate import migrate
from projections.engine.compare import compare
from projections.engine.projector import Projector
from projections.engine.views import PostgresViews
from tests.conftest import Database
from tests.golden.test_golden_samples import golden_log, sample

SCRIPT = Path(__file__).parents[2] / "deploy" / "roles.sql"
PREFIX = f"fw_roles_{os.getpid()}"
ROLES = {name: f"{PREFIX}_{name}" for name in ("owner", "app", "reader")}
FACTS = ("stream_versions", "append_keys", "migration")
KINDS = ["SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER"]
PRIVILEGES = text("""SELECT c.relname AS name, p.privilege
    FROM pg_class c CROSS JOIN unnest(CAST(:kinds AS text[])) AS p (privilege)
    WHERE c.relnamespace = CAST(:schema AS regnamespace) AND c.relkind IN ('r', 'p', 'v', 'm')
    AND has_table_privilege(:role, c.oid, p.privilege)""")
FUNCTIONS = text("""SELECT p.oid::regprocedure::text AS name, p.prosecdef AS definer
    FROM pg_proc p WHERE p.pronamespace = CAST(:schema AS regnamespace)
    AND has_function_privilege(:role, p.oid, 'EXECUTE')""")


@dataclass(frozen=True)
class Prepared:
    """A database that the script prepared and the owner migrated; `urls` are where each role connects."""

    urls: dict[str, str]
    superuser: str

    def engine(self, role: str) -> Engine:
        """An engine of the role."""
        return open_engine(self.urls[role])


def applied(url: str, *options: str) -> str:
    """Run the script as its comment says; what psql printed."""
    place = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    command = [str(binaries_folder() / "bin" / "psql"), "-X", "-q", "-d", place, *options, "-f", str(SCRIPT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def prepared(server: Database, superuser_url: str, run_sql: Callable[[str], None]) -> Iterator[Prepared]:
    """A fresh database, the script on it, and the migrations as its owner."""
    superuser = make_url(superuser_url).set(database=PREFIX).render_as_string(hide_password=False)
    run_sql(f'CREATE DATABASE "{PREFIX}"')
    options = [part for name, role in ROLES.items() for part in ("-v", f"{name}={role}")]
    urls = {
        name: make_url(superuser).set(username=role, password="secret").render_as_string(hide_password=False)
        for name, role in ROLES.items()
    }
    try:
        applied(superuser, *options)
        admin = create_engine(superuser, isolation_level="AUTOCOMMIT")
        with admin.connect() as connection:
            for role in ROLES.values():
                connection.execute(text(f"ALTER ROLE {role} PASSWORD 'secret'"))
        admin.dispose()
        owner = open_engine(urls["owner"])
        migrate(owner, app_role=ROLES["app"])
        owner.dispose()
        applied(superuser, *options)
        yield Prepared(urls, superuser)
    finally:
        run_sql(f'DROP DATABASE IF EXISTS "{PREFIX}"')
        admin = create_engine(superuser_url, isolation_level="AUTOCOMMIT")
        with admin.connect() as connection:
            for role in ROLES.values():
                connection.execute(text(f"DROP ROLE IF EXISTS {role}"))
        admin.dispose()


@pytest.fixture
def opened(prepared: Prepared) -> Iterator[Callable[[str], Engine]]:
    """A function that opens a role's engine, which is closed afterwards."""
    engines: list[Engine] = []

    def make(role: str) -> Engine:
        engines.append(prepared.engine(role))
        return engines[-1]

    yield make
    for engine in engines:
        engine.dispose()


def privileges(engine: Engine, role: str) -> set[tuple[str, str]]:
    with engine.connect() as connection:
        found = connection.execute(PRIVILEGES, {"schema": "flywheel_default", "role": role, "kinds": KINDS})
        return {(row.name, row.privilege) for row in found}


def callable_functions(engine: Engine, role: str, *, definer: bool) -> set[str]:
    with engine.connect() as connection:
        found = connection.execute(FUNCTIONS, {"schema": "flywheel_default", "role": role})
        return {row.name for row in found if row.definer == definer}


def tables(engine: Engine) -> set[str]:
    return {name for name, _ in privileges(engine, ROLES["owner"])}


def test_no_role_has_power_over_the_server_or_is_a_member_of_another(opened: Callable[[str], Engine]) -> None:
    with opened("owner").connect() as connection:
        rows = connection.execute(
            text("""SELECT rolname, rolcanlogin,
                rolsuper OR rolcreatedb OR rolcreaterole OR rolreplication OR rolbypassrls,
                (SELECT count(*) FROM pg_auth_members WHERE member = r.oid OR roleid = r.oid),
                EXISTS (SELECT FROM pg_class WHERE relowner = r.oid)
                    OR EXISTS (SELECT FROM pg_proc WHERE proowner = r.oid)
                    OR EXISTS (SELECT FROM pg_namespace WHERE nspowner = r.oid)
                FROM pg_roles r WHERE rolname = ANY(:roles)"""),
            {"roles": list(ROLES.values())},
        ).all()
    assert {tuple(row) for row in rows} == {
        (ROLES["owner"], True, False, 0, True),
        (ROLES["app"], True, False, 0, False),
        (ROLES["reader"], True, False, 0, False),
    }


def test_the_owner_owns_all_that_the_migrations_made(opened: Callable[[str], Engine]) -> None:
    with opened("owner").connect() as connection:
        others = connection.execute(
            text("""SELECT relname FROM pg_class WHERE relnamespace = CAST('flywheel_default' AS regnamespace)
                AND relowner <> CAST(:owner AS regrole)
                UNION ALL SELECT proname FROM pg_proc WHERE pronamespace = CAST('flywheel_default' AS regnamespace)
                AND proowner <> CAST(:owner AS regrole)"""),
            {"owner": ROLES["owner"]},
        ).all()
    assert others == []


def test_the_reader_reads_every_table_and_does_nothing_else(opened: Callable[[str], Engine]) -> None:
    reader = opened("reader")
    assert privileges(reader, ROLES["reader"]) == {(name, "SELECT") for name in tables(reader)}
    assert callable_functions(reader, ROLES["reader"], definer=True) == set()


def test_the_application_may_read_all_and_can_change_no_fact(opened: Callable[[str], Engine]) -> None:
    app = opened("app")
    found = privileges(app, ROLES["app"])
    partitions = {name for name in tables(app) if name.startswith("events")}
    assert {(name, "SELECT") for name in tables(app)} <= found
    assert {privilege for _, privilege in found} <= {"SELECT", "INSERT", "UPDATE", "DELETE"}
    assert {privilege for name, privilege in found if name in FACTS} == {"SELECT"}
    assert {privilege for name, privilege in found if name in partitions} <= {"SELECT", "INSERT"}


@pytest.fixture
def of_the_embedded(engine: Engine, database: Database) -> tuple[set[tuple[str, str]], set[str]]:
    """What the application may do on this run's server: tables, and functions that run as their owner."""
    if database.app_role is None:
        pytest.skip("this server's application is its owner")
    return privileges(engine, database.app_role), callable_functions(engine, database.app_role, definer=True)


def test_the_application_may_do_what_it_may_on_the_embedded_server_and_no_more(
    opened: Callable[[str], Engine], of_the_embedded: tuple[set[tuple[str, str]], set[str]]
) -> None:
    app = opened("app")
    assert (
        privileges(app, ROLES["app"]),
        callable_functions(app, ROLES["app"], definer=True),
    ) == of_the_embedded


LARGE_OBJECTS = (
    "SELECT lo_create(0)",
    "SELECT lo_creat(-1)",
    "SELECT lo_from_bytea(0, 'text')",
    "SELECT lo_import('/etc/hostname')",
    "SELECT lo_import('/etc/hostname', 1)",
)
REFUSED = {
    "app": (
        *LARGE_OBJECTS,
        "CREATE TABLE mine (a integer)",
        "CREATE TEMPORARY TABLE mine (a integer)",
        "CREATE SCHEMA mine",
        "CREATE FUNCTION mine() RETURNS integer LANGUAGE sql AS 'SELECT 1'",
        "CREATE TABLE public.mine (a integer)",
        "INSERT INTO stream_versions VALUES ('s', 1, 1)",
        "INSERT INTO append_keys VALUES ('k', '', 1, 1)",
        "UPDATE events SET actor = 'x'",
        "DELETE FROM events",
        "TRUNCATE events",
        "UPDATE migration SET version_num = '9999'",
        "ALTER TABLE events DISABLE TRIGGER ALL",
        "SELECT reserve_partitions(100000000)",
        "SELECT make_append_only('bookmarks')",
        "DROP SCHEMA flywheel_default CASCADE",
        "SET ROLE {owner}",
        "SET session_replication_role = replica",
    ),
    "reader": (
        "INSERT INTO builds (projection, version) VALUES ('p', 1)",
        "DELETE FROM fold_rows",
        "CREATE TEMPORARY TABLE mine (a integer)",
        "SELECT reserve_partitions(100000000)",
        "SET ROLE {app}",
        "SET default_transaction_read_only = off; DELETE FROM fold_rows",
        "SET TRANSACTION READ WRITE; DELETE FROM fold_rows",
    ),
    "owner": (
        *LARGE_OBJECTS,
        "SET session_replication_role = replica",
        "CREATE ROLE mine",
        "CREATE DATABASE mine",
        "ALTER SYSTEM SET fsync = off",
        "COPY (SELECT 1) TO PROGRAM 'true'",
    ),
}


@pytest.mark.parametrize(("role", "statement"), [(role, each) for role, all_ in REFUSED.items() for each in all_])
def test_a_role_is_refused_what_is_not_its_own(opened: Callable[[str], Engine], role: str, statement: str) -> None:
    with pytest.raises(DBAPIError) as caught, opened(role).connect() as connection:
        connection.execution_options(isolation_level="AUTOCOMMIT").exec_driver_sql(statement.format(**ROLES))
    assert isinstance(caught.value.orig, psycopg.errors.InsufficientPrivilege | psycopg.errors.ReadOnlySqlTransaction)


@pytest.mark.parametrize("statement", LARGE_OBJECTS)
def test_nobody_makes_large_objects_on_the_embedded_server(server: Database, statement: str) -> None:
    if read_settings().database_url is not None:
        pytest.skip("this server was not set up by `flywheel db up`")
    engine = create_engine(server.app_url)
    with pytest.raises(DBAPIError) as caught, engine.connect() as connection:
        connection.exec_driver_sql(statement)
    engine.dispose()
    assert isinstance(caught.value.orig, psycopg.errors.InsufficientPrivilege)


def test_each_role_can_do_its_work(opened: Callable[[str], Engine], prepared: Prepared) -> None:
    engine = opened("app")
    store = PostgresStore(engine)
    blob = Blob("text/plain", b"a page")
    PostgresBlobs(engine).put([blob])
    assert PostgresBlobs(engine).get(blob.digest) == blob
    requests = [
        Append(row.stream, (row.event,), row.actor, key=f"k{row.position}", cause=row.cause) for row in golden_log()
    ]
    outcomes = store.append(requests)
    assert all(isinstance(outcome, Committed) for outcome in outcomes)
    (outcome,) = store.append([Append("s", (sample("RewriteWon"),), "test")])
    assert isinstance(outcome, Committed)
    head = Projector(engine).catch_up()
    assert all(each.is_identical for each in compare(PostgresViews(engine, store, head)))
    reader = partial(store_on_one_connection, prepared.urls["reader"], "default")
    assert verify_log(reader, after=START, upto=head) == chain_at(store, head)
    migrate(opened("owner"), app_role=ROLES["app"])


def test_a_role_that_is_none_of_them_cannot_connect(prepared: Prepared) -> None:
    admin = create_engine(prepared.superuser, isolation_level="AUTOCOMMIT")
    with admin.connect() as connection:
        connection.execute(text(f"CREATE ROLE {PREFIX}_stranger LOGIN PASSWORD 'secret'"))
        try:
            url = make_url(prepared.urls["app"]).set(username=f"{PREFIX}_stranger")
            with pytest.raises(DBAPIError, match="CONNECT"):
                create_engine(url).connect()
        finally:
            connection.execute(text(f"DROP ROLE {PREFIX}_stranger"))
    admin.dispose()
