"""What an earlier release left: its exported log is imported and folds, with its blobs, keys and stream versions."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from eventlog.blobs import Blob, PostgresBlobs
from eventlog.codec import decode
from eventlog.database import open_engine
from eventlog.events import EVENT_TYPES
from eventlog.postgres import PostgresStore
from eventlog.store import START, Append, Committed, Position, Repeated
from eventlog.transfer import export_log, import_log
from eventlog.verification import store_on_one_connection, verify_log
from projections import ALL
from projections.engine.compare import compare
from projections.engine.projection import AnyFold, digest_changes
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
    assert tuple(store.read_stored()) == released_rows(name)
    upto = store.head()
    chain = verify_log(partial(store_on_one_connection, empty_database.app_url, "default"), after=START, upto=upto)
    assert chain.hex() == facts(name)["chain"]
    assert Projector(engine).catch_up() == upto
    views = PostgresViews(engine, store, upto)
    assert all(each.is_identical for each in compare(views))
    for fold in unchanged(name):
        assert digest_changes(views.changes(fold)) == facts(name)["folds"][f"{fold.name}.v{fold.version}"], fold.name
    again = tmp_path / "again.ndjson"
    export_log(engine, again)
    exported = [json.loads(line) for line in again.read_text("utf-8").splitlines()][1:]
    assert [entry for entry in exported if "position" in entry] == [e for e in entries(name) if "position" in e]
    keys = [{**entry, "chain": None} for entry in exported if "key" in entry]  # a release before the chain wrote none
    assert keys == [{**entry, "chain": None} for entry in entries(name) if "key" in entry]


@pytest.fixture
def imported(empty_database: Database, opened: Callable[[str, str], Engine]) -> Engine:
    """The application's engine on the imported log of the first release."""
    import_log(opened(empty_database.owner_url, "default"), log_of("spine"))
    return opened(empty_database.app_url, "default")


def test_the_blobs_of_an_imported_log_are_what_they_were(imported: Engine) -> None:
    blobs = PostgresBlobs(imported)
    kept = [entry for entry in entries("spine") if "blob" in entry]
    assert len(kept) > 100
    for entry in kept:
        assert blobs.get(entry["blob"]) == Blob(entry["media_type"], base64.b64decode(entry["body"]))


def test_the_keys_and_versions_of_an_imported_log_still_hold(imported: Engine) -> None:
    store, before = PostgresStore(imported), released_rows("spine")
    checked = 0
    for key in entries("spine"):
        rows = before[key["first"] - 1 : key["last"]] if "key" in key else []
        if rows and all(row.schema_version == EVENT_TYPES[row.type].schema_version for row in rows):
            events = tuple(decode(row).event for row in rows)
            (outcome,) = store.append([Append(rows[0].stream, events, "again", key=key["key"])])
            assert outcome == Repeated(Position(key["first"]), Position(key["last"]))
            checked += 1
    assert checked > 20
    last = before[-1]
    (outcome,) = store.append([Append(last.stream, (sample("RewriteWon"),), "new", expect=last.version)])
    assert outcome == Committed(Position(last.position + 1), Position(last.position + 1), last.version + 1)
