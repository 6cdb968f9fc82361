"""One sample of every event type, kept for ever, and the golden log without a database."""

from __future__ import annotations

import gzip
import json
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from eventlog.chain import GENESIS, canonical, verify_chain
from eventlog.codec import decode, decode_event, encode_events
from eventlog.events import EVENT_TYPES
from eventlog.store import START, Append, Position, Recorded, Stored
from tests.conftest import GOLDEN

SAMPLES = Path(__file__).parent / "events"


def sample(kind: str, /, **changes: Any) -> Any:
    """The sample of an event type, with other values in some of its fields."""
    version = EVENT_TYPES[kind].schema_version
    kept = json.loads((SAMPLES / f"{kind}.v{version}.json").read_text("utf-8"))
    return decode_event(kind, version, json.dumps({**kept["payload"], **changes}))


@cache
def golden_rows() -> tuple[Stored, ...]:
    """The rows of the golden log, from its file."""
    return rows_of(GOLDEN)


@cache
def rows_of(file: Path) -> tuple[Stored, ...]:
    """The rows of an exported log, from its file."""
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        entries = [entry for entry in map(json.loads, lines) if "position" in entry]
    return tuple(
        Stored(
            position=Position(entry["position"]),
            stream=entry["stream"],
            version=entry["version"],
            at=datetime.fromisoformat(entry["at"]),
            actor=entry["actor"],
            cause=entry["cause"],
            type=entry["type"],
            schema_version=entry["schema_version"],
            payload=json.dumps(entry["payload"]),
            digest=bytes.fromhex(entry["digest"]),
            chain=bytes.fromhex(entry["chain"]),
        )
        for entry in entries
    )


@cache
def golden_log() -> tuple[Recorded, ...]:
    """The events of the golden log."""
    return tuple(decode(row) for row in golden_rows())


def test_every_event_type_has_a_sample_of_its_present_version() -> None:
    wanted = {f"{kind}.v{model.schema_version}.json" for kind, model in EVENT_TYPES.items()}
    assert wanted - {file.name for file in SAMPLES.iterdir()} == set()


@pytest.mark.parametrize("file", sorted(SAMPLES.iterdir()), ids=lambda file: str(file.stem))
def test_a_sample_is_named_for_what_it_holds_and_decodes(file: Path) -> None:
    kept = json.loads(file.read_text())
    assert file.name == f"{kept['type']}.v{kept['schema_version']}.json"
    assert decode_event(kept["type"], kept["schema_version"], json.dumps(kept["payload"])).type == kept["type"]


@pytest.mark.parametrize("kind", EVENT_TYPES)
def test_a_sample_of_the_present_version_comes_back_byte_for_byte(kind: str) -> None:
    version = EVENT_TYPES[kind].schema_version
    kept = json.loads((SAMPLES / f"{kind}.v{version}.json").read_text("utf-8"))
    (encoded,) = encode_events(Append("s", (sample(kind),), "test"))
    assert encoded.payload == canonical(kept["payload"])
    assert (encoded.type, encoded.schema_version) == (kind, version)


def test_the_golden_log_is_whole_and_every_event_of_it_comes_back_byte_for_byte() -> None:
    """An event of an older version comes back as one of today's; what is stored stays."""
    rows = list(verify_chain(golden_rows(), after=START, previous=GENESIS))
    for row, recorded in zip(rows, golden_log(), strict=True):
        if row.schema_version < recorded.event.schema_version:
            continue
        (encoded,) = encode_events(Append(row.stream, (recorded.event,), row.actor, cause=row.cause))
        assert encoded.digest == row.digest
        assert encoded.payload == canonical(json.loads(row.payload))
