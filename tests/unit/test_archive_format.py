"""The parts of the archive's format that need no database: the root, typed columns, manifests."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from eventlog.archive.columns import (
    ENVELOPE,
    FAMILIES,
    cell,
    columns_of_family,
    columns_of_type,
    event_family,
    frame,
    payload_of,
)
from eventlog.archive.errors import SegmentDamaged
from eventlog.archive.manifest import SegmentManifest, parse_manifest, segment_folders
from eventlog.archive.merkle import root
from eventlog.codec import encode_events
from eventlog.events import EVENT_TYPES
from eventlog.store import Append
from tests.golden.test_golden_samples import golden_rows, sample


def by_the_book(leaves: list[bytes]) -> bytes:
    """MTH as RFC 6962 §2.1 writes it."""
    if not leaves:
        return hashlib.sha256().digest()
    if len(leaves) == 1:
        return hashlib.sha256(b"\x00" + leaves[0]).digest()
    split = 1
    while split * 2 < len(leaves):
        split *= 2
    return hashlib.sha256(b"\x01" + by_the_book(leaves[:split]) + by_the_book(leaves[split:])).digest()


@given(st.lists(st.binary(max_size=40), max_size=70))
def test_the_root_is_that_of_rfc_6962(leaves: list[bytes]) -> None:
    assert root(leaves) == by_the_book(leaves)


def test_the_root_of_the_rfcs_reference_leaves_is_the_published_one() -> None:
    leaves = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"]
    assert root(map(bytes.fromhex, leaves)).hex() == "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328"


def test_every_event_type_has_a_family_with_a_file() -> None:
    assert {event_family(kind) for kind in EVENT_TYPES} | {"other"} == set(FAMILIES)
    assert event_family("StepTaken") == "runs"
    assert event_family("NeverHeardOf") == "other"
    assert columns_of_family("other") == ()


def test_scalars_are_flattened_and_the_rest_is_json() -> None:
    kinds = {column.name: column.kind for column in columns_of_family("rewards")}
    assert kinds["terms.score"] == "integer"
    assert kinds["passed"] == "boolean"
    assert kinds["channel"] == kinds["run"] == "text"
    assert kinds["reasons"] == "json"
    runs = {column.name: column.kind for column in columns_of_family("runs")}
    assert runs["spec.template"] == "text"
    assert runs["arm.repeat"] == runs["artifact.memory.upto"] == "integer"
    assert runs["artifact.memory.folds"] == runs["specs"] == runs["applied"] == "json"
    rewrites = {column.name: column.kind for column in columns_of_family("rewrites")}
    assert rewrites["change"] == "json"
    assert "type" not in {*runs, *rewrites}


def test_a_column_never_takes_the_name_of_another() -> None:
    for family in FAMILIES:
        names = [*ENVELOPE, *(column.name for column in columns_of_family(family))]
        assert len(names) == len(set(names))
    assert {column.name for column in columns_of_family("rewards")} >= {"payload.version"}


@pytest.mark.parametrize("kind", EVENT_TYPES)
def test_typed_columns_and_payload_say_the_same(kind: str) -> None:
    (encoded,) = encode_events(Append("s", (sample(kind),), "test"))
    payload = json.loads(encoded.payload)
    row = replace(golden_rows()[0], type=kind, payload=json.dumps(payload))
    made = frame(event_family(kind), [row], [payload_of(row)]).row(0, named=True)
    assert made["payload"].encode() == rfc8785.dumps(payload)
    for column in columns_of_type(kind):
        value: object = payload
        for part in column.path:
            value = value.get(part) if isinstance(value, dict) else None
        if column.kind == "json" and value is not None:
            assert made[column.name] == rfc8785.dumps(value).decode()  # type: ignore[arg-type]
        else:
            assert made[column.name] == value
    own = {column.name for column in columns_of_type(kind)}
    assert [
        made[c.name] for c in columns_of_family(event_family(kind)) if c.name not in own and made[c.name] is not None
    ] == []


ODD: list[tuple[object, str, object]] = [
    ({"a": 1}, "text", None),
    ({"a": True}, "integer", None),
    ({"a": 1}, "boolean", None),
    ({"a": 2**63}, "integer", None),
    ({"a": None}, "json", None),
    ({}, "json", None),
    ([], "text", None),
    ({"a": {"é": "\U0001f600", "b": [1, None]}}, "json", '{"b":[1,null],"é":"\U0001f600"}'),
    ({"a": {"\U0001f600": 1, "\uffff": 2}}, "json", '{"\U0001f600":1,"\uffff":2}'),
]


@pytest.mark.parametrize(("payload", "kind", "expected"), ODD)
def test_what_is_not_of_a_columns_kind_is_null(payload: dict[str, object], kind: str, expected: object) -> None:
    assert cell(payload, ("a",), kind) == expected  # type: ignore[arg-type]


def test_a_frame_holds_events_of_types_that_this_vocabulary_lacks() -> None:
    row = replace(golden_rows()[0], type="NeverHeardOf", payload='{"b":1,"a":[2]}')
    made = frame("other", [row], [payload_of(row)])
    assert made.columns == list(ENVELOPE)
    assert made["payload"].to_list() == ['{"a":[2],"b":1}']
    assert made.schema["at"] == pl.Datetime("us", "UTC")


MANIFEST = {
    "format": "flywheel-segment",
    "format_version": 1,
    "project": "default",
    "first": 1,
    "last": 2,
    "events": 2,
    "first_at": "2026-01-01T00:00:00Z",
    "last_at": "2026-01-01T00:00:00.000001Z",
    "previous": "00" * 32,
    "chain": "11" * 32,
    "root": "22" * 32,
    "files": [],
}


def test_a_manifest_comes_back_as_it_was_written() -> None:
    made = parse_manifest(json.dumps(MANIFEST), "here")
    assert made.folder == "1-2"
    assert parse_manifest(made.text(), "here") == made == SegmentManifest.model_validate_json(made.model_dump_json())


FILE = {"family": "runs", "rows": 1, "bytes": 1, "sha256": "00" * 32, "first": 1, "last": 1} | {
    name: {} for name in ("types", "oldest", "columns")
}


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"format": "another"}, "format"),
        ({"format_version": 2}, "format_version"),
        ({"first": 0}, "first"),
        ({"chain": "zz"}, "chain"),
        ({"files": [{**FILE, "name": "../../etc/passwd"}]}, "files.0.name"),
        ({"files": [{**FILE, "name": "runs.parquet", "rows": "1"}]}, "files.0.rows"),
        ({"more": 1}, "more"),
    ],
)
def test_a_manifest_out_of_shape_is_refused_by_field(change: dict[str, object], where: str) -> None:
    with pytest.raises(SegmentDamaged, match=where):
        parse_manifest(json.dumps(MANIFEST | change), "here")


def test_only_folders_named_for_positions_are_segments(tmp_path: Path) -> None:
    for name in ("101-200", "1-100", ".1-100.partial", "notes", "1-x", "-5"):
        (tmp_path / name).mkdir()
    (tmp_path / "201-300").write_text("a file")
    assert [folder.name for folder in segment_folders(tmp_path)] == ["1-100", "101-200"]
    assert segment_folders(tmp_path / "none") == []
