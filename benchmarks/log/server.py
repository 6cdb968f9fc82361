"""The embedded server that all arms share, with durability on, and a separate database for the peer library."""

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
    """Connections of the schema owner and of the application."""

    owner_url: str
    app_url: str

    def project(self, name: str) -> None:
        """Create an empty, migrated project."""
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
        """A psycopg connection of the owner, in autocommit, on a project's schema."""
        connection = psycopg.connect(_libpq(self.owner_url), autocommit=True)
        connection.execute(sql.SQL("SET search_path = {}").format(sql.Identifier(schema_name(project))))
        return connection

    def peer(self, database: str) -> dict[str, str]:
        """Create an empty database for another library and return its connection parameters."""
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
    """Start a server for this run, and check that its durability settings are on."""
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
                raise ValueError(f"{setting} is {row}; expected on, because the figures are invalid without it")


def version(engine: Engine) -> str:
    """Version of the server."""
    with engine.connect() as connection:
        return str(connection.execute(text("SHOW server_version")).scalar_one())


def _libpq(url: str) -> str:
    return make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
