"""Segments and the table as one log: what was archived and dropped is read, repeated and refused as before."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from sqlalchemy import Engine

from eventlog.archive.drop import drop
from eventlog.archive.errors import ArchiveMissing
from eventlog.archive.segments import live_from, segments
from eventlog.archive.write import archive
from eventlog.chain import GENESIS, canonical, verified
from eventlog.postgres import PostgresStore
from eventlog.store import START, Append, Committed, Conflict, KeyReused, Position, Repeated, Stored
from tests.golden.test_golden_samples import golden_log, golden_rows, sample

END = len(golden_rows())
BORDER = 400


def test_smoke(engine: Engine, owner_engine: Engine, tmp_path: Path) -> None:
    made = archive(owner_engine, tmp_path, Position(BORDER), size=100)
    print(made)
    store = PostgresStore(engine, archive=tmp_path)
    before = [(r.position, r.chain, r.at) for r in store.stored()]
    assert drop(owner_engine, tmp_path, Position(350)) == 300
    assert live_from(engine) == 301
    assert drop(owner_engine, tmp_path, Position(BORDER)) == 400
    assert live_from(engine) == 401
    assert [(r.position, r.chain, r.at) for r in store.stored()] == before
    print([m.folder for m in segments(engine)])
    print((tmp_path / "default" / "1-100" / "segment.json").read_text()[:3000])
