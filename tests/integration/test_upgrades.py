"""What an earlier release left: its exported log is imported and folds, its database migrates with everything in it."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import Engine, text

import migrations
from api.house import check_schema
from eventlog.blobs import Blob, PostgresBlobs
from eventlog.codec import decode
from eventlog.database import open_engine, schema_of
from eventlog.events import EVENT_TYPES
from eventlog.postgres import PostgresStore
from eventlog.store import START, Append, Committed, Position, Repeated, Stored
from eventlog.transfer import export_log, import_log
from eventlog.verification import chain_at, reading, verify_log
from migrations.migrate import migrate
from projections import ALL
from projections.engine.compare import compare
from projections.engine.projection import AnyFold, digest_changes, plain, replay
from projections.engine.projector import Projector
from projections.engine.views import PostgresViews
from tests.conftest import Database
from tests.golden.test_golden_releases import NAMES, facts, log_of, released_rows
from tests.golden.test_golden_samples import sample

Entries = list[dict[str, Any]]


def entries(name: str) -> Entries:
    """The lines of a release's log after its header: events, keys and blobs."""
    with gzip.open(log_of(name), "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines][1:]


def unchanged(name: str) -> list[AnyFold]:
    """The folds that are what they were in that release."""
    return [fold for fold in ALL if f"{fold.name}.v{fold.version}" in facts(name)["folds"]]


@pytest.fixture
def opened() -> Iterator[Callable[[str, str], Engine]]:
    """A function that opens engines, which are closed afterwards."""
    engines: list[Engine] = []

    def make(url: str, project: str) -> Engine:
        engines.append(open_engine(url, project))
        return engines[-1]

    yield make
    for engine in engines:
        engine.dispose()


@pytest.mark.parametrize("name", NAMES)
def test_the_log_that_a_release_exported_is_imported_verifies_and_folds(
    name: str, empty_database: Database, opened: Callable[[str, str], Engine], tmp_path: Path
) -> None:
    owner, engine = opened(empty_database.owner_url, "default"), opened(empty_database.app_url, "default")
    assert import_log(owner, log_of(name)) == facts(name)["head"]
    store = PostgresStore(engine)
    assert tuple(store.stored()) == released_rows(name)
    upto = store.head()
    chain = verify_log(partial(reading, empty_database.app_url, "default"), after=START, upto=upto)
    assert chain.hex() == facts(name)["chain"]
    assert Projector(engine).catch_up() == upto
    views = PostgresViews(engine, store, upto)
    assert all(each.is_identical for each in compare(views))
    for fold in unchanged(name):
        assert digest_changes(views.changes(fold)) == facts(name)["folds"][f"{fold.name}.v{fold.version}"], fold.name
    again = tmp_path / "again.ndjson"
    export_log(engine, again)
    exported = [json.loads(line) for line in again.read_text("utf-8").splitlines()][1:]
    for kind in ("position", "key"):
        assert [entry for entry in exported if kind in entry] == [entry for entry in entries(name) if kind in entry]


GRANTS_THEN = (
    'GRANT USAGE ON SCHEMA "{schema}" TO "{role}"',
    'GRANT SELECT ON ALL TABLES IN SCHEMA "{schema}" TO "{role}"',
    'GRANT EXECUTE ON FUNCTION append_events(jsonb) TO "{role}"',
    'GRANT INSERT ON blobs TO "{role}"',
    'GRANT INSERT, UPDATE, DELETE ON fold_rows, bookmarks TO "{role}"',
)


def spine(owner: Engine, app_role: str) -> None:
    """The database as the first release made it."""
    config = Config()
    config.set_main_option("script_location", str(Path(migrations.__path__[0])))
    with owner.begin() as connection:
        connection.execute(text(f'CREATE SCHEMA "{schema_of(owner)}"'))
        config.attributes["connection"] = connection
        command.upgrade(config, "0001")
        for grant in GRANTS_THEN:
            connection.execute(text(grant.format(schema=schema_of(owner), role=app_role)))


def request_of(key: dict[str, Any], rows: list[dict[str, Any]]) -> dict[str, Any]:
    """What the first release sent for one append."""
    return {
        "stream": rows[0]["stream"],
        "expect": rows[0]["version"] - 1,
        "key": key["key"],
        "digest": key["digest"],
        "cause": rows[0]["cause"],
        "actor": rows[0]["actor"],
        "events": [{name: row[name] for name in ("type", "schema_version", "payload", "digest")} for row in rows],
    }


def written(engine: Engine, found: Entries) -> None:
    """Append a release's log with the function that the first release had, and put its blobs."""
    events = {entry["position"]: entry for entry in found if "position" in entry}
    requests = [
        request_of(key, [events[position] for position in range(key["first"], key["last"] + 1)])
        for key in found
        if "key" in key
    ]
    with engine.begin() as connection:
        statement = text("SELECT outcome FROM append_events(CAST(:requests AS jsonb))")
        outcomes = connection.execute(statement, {"requests": json.dumps(requests)}).scalars()
        assert set(outcomes) == {"committed"}
        for entry in found:
            if "blob" in entry:
                body = base64.b64decode(entry["body"])
                values = {"d": entry["blob"], "m": entry["media_type"], "n": len(body), "b": body}
                connection.execute(text("INSERT INTO blobs VALUES (:d, :m, :n, :b)"), values)


def folded(engine: Engine, folds: list[AnyFold], rows: list[Stored], upto: int) -> None:
    """The rows and bookmarks of projections that have read up to a position, in the tables of the first release."""
    events = [decode(row) for row in rows[:upto]]
    with engine.begin() as connection:
        for fold in folds:
            name = {"p": fold.name, "v": fold.version}
            connection.execute(text("INSERT INTO bookmarks VALUES (:p, :v, :upto, true)"), {**name, "upto": upto})
            for change in replay(fold, events):
                state = {"k": change.key, "s": change.since, "state": json.dumps(plain(change.state))}
                connection.execute(
                    text("INSERT INTO fold_rows VALUES (:p, :v, :k, :s, CAST(:state AS jsonb))"), {**name, **state}
                )


def kept_rows(engine: Engine) -> list[Stored]:
    """The rows of the table as it is, whatever reads it."""
    names = "position, stream, version, at, actor, cause, type, schema_version, payload::text AS payload, digest, chain"
    with engine.connect() as connection:
        found = connection.execute(text(f"SELECT {names} FROM events ORDER BY position")).mappings()  # noqa: S608 ours
        return [Stored(**{**row, "digest": bytes(row["digest"]), "chain": bytes(row["chain"])}) for row in found]


@pytest.fixture
def upgraded(empty_database: Database, opened: Callable[[str, str], Engine]) -> tuple[Engine, list[Stored], str]:
    """A database of the first release, in use, migrated to what this code expects; and the rows it had before."""
    role = empty_database.app_role
    if role is None:
        pytest.skip("this server's application is its owner")
    owner, engine = opened(empty_database.owner_url, "old"), opened(empty_database.app_url, "old")
    spine(owner, role)
    written(engine, entries("spine"))
    before = kept_rows(engine)
    folded(engine, unchanged("spine"), before, upto=400)
    migrate(owner, app_role=role)
    check_schema(engine)
    return engine, before, empty_database.app_url


def test_a_database_of_the_first_release_migrates_and_every_event_is_what_it_was(
    upgraded: tuple[Engine, list[Stored], str],
) -> None:
    engine, before, url = upgraded
    store = PostgresStore(engine)
    assert list(store.stored()) == before
    assert [row.digest for row in before] == [row.digest for row in released_rows("spine")]
    chain = verify_log(partial(reading, url, "old"), after=START, upto=store.head())
    assert chain == chain_at(store, store.head()) == before[-1].chain
    assert [event.event for event in store.read()] == [decode(row).event for row in released_rows("spine")]


def test_its_blobs_are_what_they_were(upgraded: tuple[Engine, list[Stored], str]) -> None:
    blobs = PostgresBlobs(upgraded[0])
    kept = [entry for entry in entries("spine") if "blob" in entry]
    assert len(kept) > 100
    for entry in kept:
        assert blobs.get(entry["blob"]) == Blob(entry["media_type"], base64.b64decode(entry["body"]))


def test_its_keys_and_versions_still_hold(upgraded: tuple[Engine, list[Stored], str]) -> None:
    store, before = PostgresStore(upgraded[0]), upgraded[1]
    checked = 0
    for key in entries("spine"):
        rows = before[key["first"] - 1 : key["last"]] if "key" in key else []
        if rows and all(row.schema_version == EVENT_TYPES[row.type].schema_version for row in rows):
            events = tuple(decode(row).event for row in rows)
            (outcome,) = store.append([Append(rows[0].stream, events, "again", key=key["key"])])
            assert outcome == Repeated(Position(key["first"]), Position(key["last"]))
            checked += 1
    assert checked > 50
    last = before[-1]
    (outcome,) = store.append([Append(last.stream, (sample("RewriteWon"),), "new", expect=last.version)])
    assert outcome == Committed(Position(last.position + 1), Position(last.position + 1), last.version + 1)


def test_its_projections_go_on_from_where_they_stood_and_mean_what_a_replay_does(
    upgraded: tuple[Engine, list[Stored], str],
) -> None:
    engine = upgraded[0]
    store = PostgresStore(engine)
    upto = Projector(engine).catch_up()
    views = PostgresViews(engine, store, upto)
    assert [each for each in compare(views) if not each.is_identical] == []
    released = [replace(decode(row), at=now.at) for row, now in zip(released_rows("spine"), upgraded[1], strict=True)]
    for fold in unchanged("spine"):
        assert digest_changes(views.changes(fold)) == digest_changes(replay(fold, released)), fold.name
