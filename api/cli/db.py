"""`flywheel db`: the database that holds the log."""

from __future__ import annotations

from contextlib import closing

import typer
from rich.text import Text

from eventlog.postgres import PostgresStore
from migrations.migrate import migrate as migrate_schema
from migrations.migrate import newest_revision

from .. import embedded, tokens
from ..errors import NotEmbedded
from ..house import House, open_house, project_engine
from ..settings import Settings, read_settings
from .output import ERR, AsJson, emit_json, print_facts, say

app = typer.Typer(help="The database: up, down, status, migrate.", no_args_is_help=True)


@app.command()
def up() -> None:
    """Start the embedded PostgreSQL (if used), migrate the schema, and print an admin token the first time."""
    settings = read_settings()
    if settings.is_embedded:
        embedded.up(settings.home)
        say(f"PostgreSQL is running; its data is in {settings.home}/postgres")
    migrate_project(settings)
    with closing(open_house(settings)) as house:
        first_token(house)


def migrate_project(settings: Settings) -> None:
    """Migrate the project's schema to the newest version as its owner, and grant the application its rights."""
    with project_engine(settings, is_owner=True) as owner, project_engine(settings) as application:
        role = application.url.username
        migrate_schema(owner, app_role=None if role == owner.url.username else role)
    ERR.print(Text(f"The schema of project {settings.project!r} is at migration {newest_revision()}"))


def first_token(house: House) -> None:
    """Issue and print the first admin token, unless there is one."""
    if tokens.has_any(house.views()):
        return
    plain = tokens.issue(house.store, "admin", "operator", "admin")
    say(f"Admin token for the REST API: {plain}")
    say("Save it now: it is not shown again. `flywheel token issue NAME` creates another one.")


@app.command()
def down() -> None:
    """Stop the embedded PostgreSQL. Its data is kept."""
    settings = read_settings()
    if not settings.is_embedded:
        raise NotEmbedded
    say("PostgreSQL stopped" if embedded.down(settings.home) else "PostgreSQL was not running")


@app.command()
def migrate() -> None:
    """Migrate the project's schema to the newest version."""
    migrate_project(read_settings())


@app.command()
def status(as_json: AsJson = False) -> None:
    """Show whether the database is running, and the head of its log."""
    settings = read_settings()
    rows: list[tuple[str, object]] = [("project", settings.project)]
    if settings.is_embedded:
        found = embedded.status(settings.home)
        rows += [
            ("kind", "embedded"),
            ("running", found.running),
            ("process", found.pid),
            ("version", found.version),
            ("data", found.data),
            ("socket", found.sockets),
            ("started", found.started_at),
        ]
    else:
        rows += [("kind", "external"), ("running", True)]
    if dict(rows)["running"]:
        with project_engine(settings) as engine:
            rows.append(("log head", PostgresStore(engine).head()))
    emit_json(dict(rows)) if as_json else print_facts(rows)
