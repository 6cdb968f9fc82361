"""Bytes on disk for prompts, stored as linked messages, as whole text, and as whole compressed text."""

from __future__ import annotations

import itertools
import json
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

import zstandard
from sqlalchemy import Engine, text

from api import embedded
from benchmarks.report import report
from eventlog.blobs import PostgresBlobs
from eventlog.blobs.conversations import put_messages
from eventlog.database import open_engine
from migrations.migrate import migrate

RUNS = 400
CALLS = 10
SYSTEM_BYTES = 4_000
MESSAGE_BYTES = (300, 2_500)
TARGET = 5.0
_LEVEL = 9

Message = dict[str, str]


class Writer:
    """Seeded prose of made-up words and numbers, drawn by Zipf's law. Every text is unique."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 workload data, not a secret
        self._words = self._vocabulary(4_000)
        self._weights = list(itertools.accumulate(1 / (rank + 2.7) for rank in range(len(self._words))))

    def _vocabulary(self, size: int) -> list[str]:
        onsets = [
            "b",
            "c",
            "d",
            "f",
            "g",
            "h",
            "j",
            "k",
            "l",
            "m",
            "n",
            "p",
            "r",
            "s",
            "t",
            "v",
            "w",
            "br",
            "cl",
            "dr",
            "gr",
            "pl",
            "st",
            "tr",
            "sh",
            "th",
        ]
        vowels, ends = ["a", "e", "i", "o", "u", "ea", "ou", "ai"], ["", "n", "r", "s", "t", "l", "m", "nd", "st"]
        words: set[str] = set()
        while len(words) < size:
            count = self._random.choice([1, 1, 2, 2, 3])
            words.add("".join(self._random.choice(part) for _ in range(count) for part in (onsets, vowels, ends)))
        return sorted(words, key=lambda word: (len(word), word))

    def text(self, size: int) -> str:
        """Sentences of `size` bytes in total."""
        parts: list[str] = []
        length = 0
        while length < size:
            words = self._random.choices(self._words, cum_weights=self._weights, k=self._random.randint(6, 18))
            number = f" {self._random.randint(1, 99_999)}" if self._random.random() < 2 / 5 else ""
            parts.append(" ".join(words).capitalize() + number + self._random.choice([". ", ". ", "\n"]))
            length += len(parts[-1])
        return "".join(parts)[:size]

    def message(self, role: str) -> Message:
        """One chat message."""
        return {"role": role, "content": self.text(self._random.randint(*MESSAGE_BYTES))}


def prompts(runs: int, calls: int) -> Iterator[list[Message]]:
    """Prompts of all calls, run by run: a shared system prompt, and a history that grows by two messages per call."""
    writer = Writer(seed=7)
    system = {"role": "system", "content": writer.text(SYSTEM_BYTES)}
    for _ in range(runs):
        history = [system]
        for _ in range(calls):
            history = [*history, writer.message("user")]
            yield history
            history = [*history, writer.message("assistant")]


def bytes_on_disk(engine: Engine, owner: Engine, *, runs: int = RUNS, calls: int = CALLS) -> dict[str, float]:
    """Size of the tables with indexes and TOAST after a vacuum, and our savings. The database must have no blobs yet.

    `engine` connects as the application, `owner` as the schema owner.
    """
    with owner.begin() as connection:
        connection.execute(text("CREATE TABLE whole_text (call bigint PRIMARY KEY, prompt text NOT NULL)"))
        connection.execute(text("CREATE TABLE whole_zstd (call bigint PRIMARY KEY, prompt bytea NOT NULL)"))
        connection.execute(text("ALTER TABLE whole_zstd ALTER prompt SET STORAGE EXTERNAL"))
    blobs, compressor, plain = PostgresBlobs(engine), zstandard.ZstdCompressor(level=_LEVEL), 0
    with owner.begin() as connection:
        for call, messages in enumerate(prompts(runs, calls)):
            put_messages(blobs, messages)
            whole = json.dumps(messages)
            plain += len(whole)
            row = {"call": call, "plain": whole, "packed": compressor.compress(whole.encode())}
            connection.execute(text("INSERT INTO whole_text VALUES (:call, :plain)"), row)
            connection.execute(text("INSERT INTO whole_zstd VALUES (:call, :packed)"), row)
    ours, as_text, as_zstd = (_size(owner, table) for table in ("blobs", "whole_text", "whole_zstd"))
    return {
        "prompts, bytes of JSON": plain,
        "prompts as linked messages, bytes on disk": ours,
        "prompts whole as text (pglz of PostgreSQL), bytes on disk": as_text,
        "prompts whole in zstd, bytes on disk": as_zstd,
        "prompts whole as text / linked messages": as_text / ours,
        "prompts whole in zstd / linked messages": as_zstd / ours,
        "prompts as JSON / linked messages": plain / ours,
    }


def _size(owner: Engine, table: str) -> int:
    with owner.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text(f"VACUUM {table}"))
        return int(connection.execute(text("SELECT pg_total_relation_size(:t)"), {"t": table}).scalar_one())


def main() -> None:
    """Measure on a new embedded server and print the table and the JSON line."""
    with tempfile.TemporaryDirectory(prefix="flywheel-bench-") as folder:
        found = embedded.up(Path(folder))
        try:
            owner = open_engine(found.owner_url)
            migrate(owner, app_role="flywheel")
            engine = open_engine(found.app_url)
            figures = bytes_on_disk(engine, owner)
            owner.dispose()
            engine.dispose()
        finally:
            embedded.down(Path(folder))
    report("blobs", figures, {"prompts whole as text / linked messages": TARGET})


if __name__ == "__main__":
    main()
