"""The server that all arms share: our embedded one, with its guarantees on, and a database of its own for the peer."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql
from sqlalchemy import Engine, make_url, text

from api import embedded
from eventlog.database import open_engine, schema_name
from migrations.migrate import migrate


@dataclass(frozen=True, slots=True)
class Server:
    """Where the owner and the application connect."""

    owner_url: str
    app_url: str

    def project(self, name: str) -> None:
        """Make an empty, migrated project."""
        owner = self.owner(name)
        migrate(owner, app_role=make_url(self.app_url).username)
        owner.dispose()

    def engine(self, project: str, *, pool_size: int = 8) -> Engine:
        """The application's engine on a project."""
        return open_engine(self.app_url, project, pool_size=pool_size)

    def owner(self, project: str) -> Engine:
        """The schema owner's engine on a project."""
        return open_engine(self.owner_url, project)

    def plain(self, project: str) -> psycopg.Connection[Any]:
        """The owner's own connection, in autocommit, on a project's schema."""
        connection = psycopg.connect(_libpq(self.owner_url), autocommit=True)
        connection.execute(sql.SQL("SET search_path = {}").format(sql.Identifier(schema_name(project))))
        return connection

    def peer(self, database: str) -> dict[str, str]:
        """An empty database of the same server for another library; what it connects with."""
        with psycopg.connect(_libpq(self.owner_url), autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(database)))
        url = make_url(self.owner_url)
        return {
            "POSTGRES_DBNAME": database,
            "POSTGRES_HOST": str(url.query["host"]),
            "POSTGRES_PORT": str(url.query["port"]),
            "POSTGRES_USER": str(url.username),
            "POSTGRES_PASSWORD": str(url.password),
        }


@contextmanager
def own_server() -> Iterator[Server]:
    """A server for this run; what it promises is what is measured."""
    with tempfile.TemporaryDirectory(prefix="flywheel-bench-") as folder:
        found = embedded.up(Path(folder))
        try:
            server = Server(found.owner_url, found.app_url)
            _refuse_shortcuts(server)
            yield server
        finally:
            embedded.down(Path(folder))


def _refuse_shortcuts(server: Server) -> None:
    with server.plain("default") as connection:
        for setting in ("fsync", "synchronous_commit", "full_page_writes"):
            row = connection.execute(sql.SQL("SHOW {}").format(sql.Identifier(setting))).fetchone()
            if row != ("on",):
                raise ValueError(f"{setting} is {row}; expected it on, or the figures mean nothing")


def version(engine: Engine) -> str:
    """The server's version."""
    with engine.connect() as connection:
        return str(connection.execute(text("SHOW server_version")).scalar_one())


def _libpq(url: str) -> str:
    return make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
