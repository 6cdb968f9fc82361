"""What was released is kept for ever: samples of its events, its migrations, the log it wrote, what it made of that."""

from __future__ import annotations

import gzip
import hashlib
import json
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from eventlog.chain import GENESIS, verify_chain
from eventlog.codec import decode, decode_event, encode_events
from eventlog.events import EVENT_TYPES
from eventlog.store import START, Append, Stored
from eventlog.transfer import FORMAT, PLAIN_BLOBS
from projections import ALL
from projections.engine.projection import digest_changes, replay
from tests.golden.release import MIGRATIONS, RELEASES
from tests.golden.test_golden_samples import SAMPLES, rows_of

NAMES = sorted(file.stem for file in RELEASES.glob("*.json"))
ROOT = RELEASES.parents[2]


def facts(name: str) -> dict[str, Any]:
    """What a release made of its log, and what it was made of."""
    return dict(json.loads((RELEASES / f"{name}.json").read_text("utf-8")))


def log_of(name: str) -> Path:
    """The log that a release wrote, as it exported it."""
    return RELEASES / f"{name}.ndjson.gz"


def released_rows(name: str) -> tuple[Stored, ...]:
    """The rows of that log."""
    return rows_of(log_of(name))


def sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def test_the_spine_is_the_first_release_and_each_has_its_log() -> None:
    assert "spine" in NAMES
    assert sorted(file.name.removesuffix(".ndjson.gz") for file in RELEASES.glob("*.ndjson.gz")) == NAMES


def test_every_tag_of_this_repository_is_kept_as_a_release() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("this is no checkout")
    found = subprocess.run(["git", "tag"], capture_output=True, text=True, cwd=ROOT, check=True)
    assert [tag for tag in found.stdout.split() if tag not in NAMES] == []


def test_every_version_of_every_event_has_a_sample() -> None:
    wanted = {f"{kind}.v{v}" for kind, model in EVENT_TYPES.items() for v in range(1, model.schema_version + 1)}
    assert wanted == {file.stem for file in SAMPLES.iterdir()}


@pytest.mark.parametrize("file", sorted(SAMPLES.iterdir()), ids=lambda file: str(file.stem))
def test_a_sample_of_any_version_becomes_an_event_that_can_be_written_today(file: Path) -> None:
    kept = json.loads(file.read_text("utf-8"))
    event = decode_event(kept["type"], kept["schema_version"], json.dumps(kept["payload"]))
    (encoded,) = encode_events(Append("s", (event,), "test"))
    assert (encoded.type, encoded.schema_version) == (kept["type"], EVENT_TYPES[kept["type"]].schema_version)


@pytest.mark.parametrize("name", NAMES)
def test_what_was_released_is_not_edited(name: str) -> None:
    released = facts(name)
    assert {stem: sha256(SAMPLES / f"{stem}.json") for stem in released["samples"]} == released["samples"]
    assert {file: sha256(MIGRATIONS / file) for file in released["migrations"]} == released["migrations"]


@pytest.mark.parametrize("name", NAMES)
def test_the_log_of_a_release_holds_every_event_that_it_had(name: str) -> None:
    released = facts(name)
    assert {stem: released["events"].get(stem) for stem in released["samples"]} == released["events"]
    assert Counter(f"{row.type}.v{row.schema_version}" for row in released_rows(name)) == released["events"]
    with gzip.open(log_of(name), "rt", encoding="utf-8") as lines:
        assert json.loads(next(lines))["format"] in {FORMAT, PLAIN_BLOBS}


@pytest.mark.parametrize("name", NAMES)
def test_the_log_of_a_release_verifies_and_every_event_of_it_is_read_as_its_present_class(name: str) -> None:
    rows = list(verify_chain(released_rows(name), after=START, previous=GENESIS))
    assert (len(rows), rows[-1].chain.hex()) == (facts(name)["head"], facts(name)["chain"])
    assert all(type(decode(row).event) is EVENT_TYPES[row.type] for row in rows)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("fold", ALL, ids=lambda fold: f"{fold.name}.v{fold.version}")
def test_the_log_of_a_release_still_folds_and_to_the_same_digest_where_the_fold_is_the_same(
    fold: Any, name: str
) -> None:
    found = digest_changes(replay(fold, [decode(row) for row in released_rows(name)]))
    assert found == facts(name)["folds"].get(f"{fold.name}.v{fold.version}", found)
