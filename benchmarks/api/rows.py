"""Rows of a dataset from `flywheel serve` in each encoding, beside the same bytes from a bare socket."""

from __future__ import annotations

import hashlib
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from random import Random

import polars as pl
from pydantic import SecretStr

from api.datasets.freeze import build_dataset, freeze_dataset
from api.datasets.kept_files import dataset_folder, keep_file, kept_name
from api.house import House, open_house
from api.routes.rows import ARROW, NDJSON, PARQUET, encode_rows
from api.settings import Settings
from benchmarks.datasets.workload import SIBLINGS, VOCABULARY, Tokens, Turn, run_of
from benchmarks.log.server import Server
from benchmarks.report import Target, at_least
from eventlog.blobs import Blob
from eventlog.events import GrpoQuery

from .processes import Program
from .raw import PIECE
from .services import ROOT, serving

PROJECT = "rows"
COPIES = 10
"""How often the rows of the log are repeated: so far apart that no encoding sees two of them at once."""

PROMPT, DRAWN = 20, 12
ACCEPTED = {"arrow": ARROW, "lz4.arrow": f"{ARROW};codec=lz4", "parquet": PARQUET, "ndjson": NDJSON}
NAMES = {"arrow": "Arrow", "lz4.arrow": "Arrow with lz4", "parquet": "Parquet", "ndjson": "NDJSON"}
SHARE = "Arrow, MB/s / those of a bare socket"
FASTER = "rows/s, Arrow with lz4 / NDJSON"
FASTER_ENCODED = "rows/s encoded when asked for, Arrow with lz4 / NDJSON"
TARGETS: dict[str, Target] = {SHARE: at_least(0.5), FASTER: at_least(4), FASTER_ENCODED: at_least(4)}
_AT_ONCE = 100
_ROOM = 64 * 2**30


@dataclass(frozen=True, slots=True)
class ServedRows:
    """Where the rows of a dataset are asked for, and the files that they are kept in, by the ending of each."""

    port: int
    token: str
    digest: str
    rows: int
    kept: dict[str, Path]

    def ask(self, suffix: str, into: Callable[[memoryview], object]) -> int:
        """Ask for the rows in an encoding; their number of bytes. Raises ValueError for another answer."""
        head = (
            f"GET /v1/datasets/{self.digest}/rows HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
            f"Authorization: Bearer {self.token}\r\nAccept: {ACCEPTED[suffix]}\r\n\r\n"
        )
        with socket.create_connection(("127.0.0.1", self.port)) as connection:
            connection.sendall(head.encode())
            return _receive(connection, into, has_head=True)


def measure_rows(server: Server, folder: Path, rows: int, repeats: int) -> dict[str, float]:
    """Figures of each encoding."""
    with _serve(server, folder, rows) as served, _bare_socket() as port:
        figures: dict[str, float] = {"rows": served.rows}
        kept: dict[str, list[float]] = {suffix: [] for suffix in ACCEPTED}
        bare: dict[str, list[float]] = {suffix: [] for suffix in ACCEPTED}
        read: dict[str, list[float]] = {suffix: [] for suffix in ACCEPTED}
        encoded: dict[str, list[float]] = {suffix: [] for suffix in ACCEPTED if suffix != "arrow"}
        for _ in range(repeats):
            for suffix, file in served.kept.items():
                bare[suffix].append(_seconds(lambda file=file: _ask_bare(port, file)))  # type: ignore[misc]
                kept[suffix].append(_seconds(lambda suffix=suffix: served.ask(suffix, len)))  # type: ignore[misc]
                read[suffix].append(_seconds(lambda suffix=suffix: _frame(served, suffix)))  # type: ignore[misc]
                if suffix in encoded:
                    file.unlink()
                    encoded[suffix].append(_seconds(lambda suffix=suffix: served.ask(suffix, len)))  # type: ignore[misc]
        for suffix, file in served.kept.items():
            figures |= _figures(NAMES[suffix], file.stat().st_size, served.rows, kept[suffix], bare[suffix])
            figures[f"{NAMES[suffix]}, rows/s into a frame of Polars"] = served.rows / statistics.median(read[suffix])
        for suffix, took in encoded.items():
            name = f"{NAMES[suffix]}, rows/s encoded when asked for"
            figures[name] = served.rows / statistics.median(took)
    lz4, plain = NAMES["lz4.arrow"], NAMES["ndjson"]
    for what, name in (
        ("rows/s", FASTER),
        ("rows/s into a frame of Polars", "rows/s into a frame, Arrow with lz4 / NDJSON"),
        ("rows/s encoded when asked for", FASTER_ENCODED),
    ):
        figures[name] = figures[f"{lz4}, {what}"] / figures[f"{plain}, {what}"]
    return figures


def _figures(name: str, size: int, rows: int, kept: list[float], bare: list[float]) -> dict[str, float]:
    took, least = statistics.median(kept), statistics.median(bare)
    return {
        f"{name}, MB": size / 1e6,
        f"{name}, MB/s": size / 1e6 / took,
        f"{name}, MB/s / those of a bare socket": least / took,
        f"{name}, rows/s": rows / took,
    }


@contextmanager
def _serve(server: Server, folder: Path, rows: int) -> Iterator[ServedRows]:
    """Plant the rows as files that an earlier request has left, and serve them."""
    server.project(PROJECT)
    home = folder / "rows"
    home.mkdir()
    settings = Settings(database_url=SecretStr(server.app_url), project=PROJECT, home=home, dataset_bytes=_ROOM)
    house = open_house(settings)
    try:
        digest, kept, height = _plant(house, rows)
    finally:
        house.close()
    program, token = serving(server, home, PROJECT, DATASET_BYTES=str(_ROOM))
    program.start()
    try:
        yield ServedRows(_port(program), token, digest, height, kept)
    finally:
        program.stop()


def _plant(house: House, rows: int) -> tuple[str, dict[str, Path], int]:
    _fill(house, rows // COPIES // SIBLINGS)
    made = build_dataset(house.store, house.blobs, house.views(), GrpoQuery(reward="shaped"))
    frame = pl.concat([made.rows] * COPIES, rechunk=False)
    digest = hashlib.sha256(f"{made.digest} {COPIES} times".encode()).hexdigest()
    freeze_dataset(house.store, replace(made, digest=digest, height=frame.height), "benchmark")
    views = house.views()
    kept = {}
    for suffix in ACCEPTED:
        name = kept_name(views, digest, suffix)
        keep_file(house, views, name, frame, encode_rows(frame, suffix))
        kept[suffix] = dataset_folder(house) / name
    return digest, kept, frame.height


def _fill(house: House, groups: int) -> None:
    for first in range(0, groups, _AT_ONCE):
        blobs: list[Blob] = []
        appends = [
            run_of(group, index, _tokens(group, index), blobs)
            for group in range(first, min(first + _AT_ONCE, groups))
            for index in range(SIBLINGS)
        ]
        house.blobs.put(blobs)
        house.store.append_encoded(appends)


def _tokens(group: int, index: int) -> Tokens:
    shared, own = Random(group), Random(f"{group}/{index}")  # noqa: S311 a benchmark
    prompt = [shared.randrange(VOCABULARY) for _ in range(PROMPT)]
    drawn = [own.randrange(VOCABULARY) for _ in range(DRAWN)]
    return Tokens(prompt, (Turn(drawn, [-own.random() for _ in drawn], ()),))


def _frame(served: ServedRows, suffix: str) -> None:
    """Read the rows as a client does."""
    body = BytesIO()
    served.ask(suffix, body.write)
    body.seek(0)
    readers: dict[str, Callable[[BytesIO], pl.DataFrame]] = {"parquet": pl.read_parquet, "ndjson": pl.read_ndjson}
    read = readers.get(suffix, pl.read_ipc_stream)
    if read(body).height != served.rows:
        raise ValueError(f"{suffix} has other rows than were frozen")


@contextmanager
def _bare_socket() -> Iterator[int]:
    with subprocess.Popen(
        [sys.executable, "-m", "benchmarks.api.raw"], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield int(process.stdout.readline() if process.stdout else 0)
        finally:
            process.kill()


def _ask_bare(port: int, file: Path) -> int:
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(f"{file}\n".encode())
        return _receive(connection, len, has_head=False)


def _receive(connection: socket.socket, into: Callable[[memoryview], object], *, has_head: bool) -> int:
    """Take all bytes of a connection; their number without those of an answer's head."""
    room, found, head = bytearray(PIECE), 0, b""
    view = memoryview(room)
    while amount := connection.recv_into(view):
        part = view[:amount]
        if has_head:
            head += part
            top, end, rest = head.partition(b"\r\n\r\n")
            if not end:
                continue
            if b" 200 " not in top.partition(b"\r\n")[0]:
                raise ValueError(f"the server answered {top[:200]!r}")
            part, has_head = memoryview(rest), False
        into(part)
        found += len(part)
    return found


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _port(program: Program) -> int:
    return int(program.url.rpartition(":")[2])
