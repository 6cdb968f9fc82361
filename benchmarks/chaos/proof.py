"""Verifies the log after the faults, and counts how often each guarantee was broken."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from sqlalchemy import Engine, text

from benchmarks.report import Target, at_most
from eventlog.codec import encode_events
from eventlog.errors import BrokenChain
from eventlog.postgres import PostgresStore
from eventlog.store import START, Stored
from eventlog.verification import verify_log
from projections import ALL
from projections.engine.builds import bookmarks
from projections.engine.compare import compare
from projections.engine.projector import Projector
from projections.engine.views import catch_up_views

from .intentions import Settled, settled, unsettled

NONE_OF = (
    "events lost",
    "events doubled",
    "events nobody meant",
    "answers that disagree",
    "requests refused",
    "writers not settled",
    "breaks of the chain",
    "times that go back",
    "keys that disagree",
    "stream versions that disagree",
    "projections parked",
    "projections that differ",
    "subscribers that did not arrive",
    "gaps seen by subscribers",
    "subscribers that saw what is not there",
)
"""Figures that must be 0."""


def targets(prefix: str = "") -> dict[str, float | Target]:
    """The target 0 for each of these figures."""
    return {prefix + name: at_most(0) for name in NONE_OF}


@dataclass(frozen=True, slots=True)
class _Place:
    stream: str
    digest: bytes


def prove(engine: Engine, folder: Path, seed: int, journals: Sequence[Path]) -> dict[str, float]:
    """Figures of an idle log: numbers of acknowledgements, and how often each guarantee was broken."""
    requests = list(settled(seed, journals))
    figures = {
        "requests acknowledged": float(len(requests)),
        "events acknowledged": float(sum(len(found.request.events) for found in requests)),
        "requests acknowledged as repeats": float(
            sum(found.answers[:1] != () and found.answers[0].is_repeated for found in requests)
        ),
        "requests refused": float(sum(len(found.refusals) for found in requests)),
        "answers that disagree": float(sum(len({(a.first, a.last) for a in found.answers}) > 1 for found in requests)),
        "writers not settled": float(len(unsettled(journals))),
    }
    rows = list(PostgresStore(engine).read_stored())
    return (
        figures
        | _events(rows, requests)
        | _chain(engine, rows)
        | _tables(engine, rows, requests)
        | _seen(folder, rows)
        | _folds(engine)
    )


def _events(rows: Sequence[Stored], requests: Sequence[Settled]) -> dict[str, float]:
    meant = list(_places(requests))
    there: dict[int, Stored] = {row.position: row for row in rows}
    lost = sum(
        position not in there or (there[position].stream, there[position].digest) != (place.stream, place.digest)
        for position, place in meant
    )
    contents = Counter((row.stream, row.digest) for row in rows)
    intended = {(place.stream, place.digest) for _, place in meant}
    return {
        "events in the log": float(len(rows)),
        "events lost": float(lost),
        "events doubled": float(sum(number - 1 for number in contents.values())),
        "events nobody meant": float(sum((row.stream, row.digest) not in intended for row in rows)),
    }


def _places(requests: Sequence[Settled]) -> Iterator[tuple[int, _Place]]:
    for found in requests:
        if found.answers:
            for position, row in enumerate(encode_events(found.request), start=found.answers[0].first):
                yield position, _Place(found.request.stream, row.digest)


def is_damaged(engine: Engine) -> bool:
    """True if `flywheel log verify` would find damage in an idle log."""
    store = PostgresStore(engine)
    try:
        verify_log(lambda: nullcontext(store), after=START, upto=store.head())
    except BrokenChain:
        return True
    return False


def _chain(engine: Engine, rows: Sequence[Stored]) -> dict[str, float]:
    breaks = int(is_damaged(engine))
    backwards = sum(row.at < before.at for before, row in pairwise(rows))
    return {"breaks of the chain": float(breaks), "times that go back": float(backwards)}


def _tables(engine: Engine, rows: Sequence[Stored], requests: Sequence[Settled]) -> dict[str, float]:
    with engine.connect() as connection:
        keys = {
            (row.key, row.first_position, row.last_position)
            for row in connection.execute(text("SELECT key, first_position, last_position FROM append_keys"))
        }
        versions = {
            (row.stream, row.version, row.position)
            for row in connection.execute(
                text(
                    "SELECT stream, version - back AS version, position - back AS position"
                    " FROM stream_versions, generate_series(0, events - 1) AS back"
                )
            )
        }
    given = {(found.request.key, answer.first, answer.last) for found in requests for answer in found.answers}
    return {
        "keys that disagree": float(len(keys ^ given)),
        "stream versions that disagree": float(
            len(versions ^ {(row.stream, row.version, row.position) for row in rows})
        ),
    }


def _seen(folder: Path, rows: Sequence[Stored]) -> dict[str, float]:
    notes = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.seen"))]
    total = hashlib.sha256()
    for row in rows:
        total.update(row.digest)
    return {
        "gaps seen by subscribers": float(sum(note["gaps"] + note["backwards"] for note in notes)),
        "subscribers that saw what is not there": float(sum(note["digest"] != total.hexdigest() for note in notes)),
    }


def _folds(engine: Engine) -> dict[str, float]:
    store = PostgresStore(engine)
    views = catch_up_views(Projector(engine), engine, store)
    parked = {bookmark.projection for bookmark in bookmarks(engine) if bookmark.parked_at is not None}
    compared = list(compare(views, tuple(fold for fold in ALL if fold.name not in parked)))
    return {
        "projections compared": float(len(compared)),
        "projections parked": float(len(parked)),
        "projections that differ": float(sum(not found.is_identical for found in compared)),
    }
