"""A log as a busy project writes it, made fast: the owner copies it in with true digests, chain, versions and keys.

A group is four siblings: each is started, and later reset, stepped, finished and graded in one append. Now and then a
run is missing or proposes a rewrite, and rewrites win and lose. The same seed gives the same log.
"""

from __future__ import annotations

import hashlib
import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

import msgspec
import psycopg
from sqlalchemy import Engine, text

from eventlog.chain import GENESIS

ACTOR = "runner"
STEPS = 10
SIBLINGS = 4
TEMPLATES = tuple(f"marketplace.task_{number}" for number in range(12))
_BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
_PG_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_UNIX_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PAUSE = timedelta(milliseconds=3)
_TICK = timedelta(microseconds=1)
_PART = 20_000
_HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_TRAILER = b"\xff\xff"
_NULL = b"\xff\xff\xff\xff"

Payload = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Entry:
    """One append: its key, its stream, and its events as (type, payload)."""

    key: str
    stream: str
    events: tuple[tuple[str, Payload], ...]


def entries(seed: int) -> Iterator[Entry]:
    """Appends without end."""
    draw = random.Random(seed)  # noqa: S311 a workload, not a secret
    for number in range(10**9):
        runs = [_Run(number, index, draw) for index in range(SIBLINGS)]
        yield from (Entry(f"start:{run.name}", f"run/{run.name}", (run.started(),)) for run in runs)
        for run in runs:
            yield Entry(f"finish:{run.name}", f"run/{run.name}", tuple(run.ended()))
        if number % 50 == 0:
            yield _proposed(number // 50, runs[0].name)
        elif number % 5 == 0:
            yield _tried(draw.randrange(number // 50 + 1), runs[-1].name, is_won=draw.random() < 0.6)  # noqa: PLR2004


class _Run:
    def __init__(self, number: int, index: int, draw: random.Random) -> None:
        self.sweep, self.index, self.seed = f"marketplace-{number // 48}", index, number % 48
        self.template = TEMPLATES[number % len(TEMPLATES)]
        self.group = f"{self.sweep}__{self.template}__seed{self.seed}"
        self.name = f"{self.group}__s{index}"
        self.candidate = f"rw-{draw.randrange(number // 50 + 1):012x}" if index == SIBLINGS - 1 else None
        self.passed = draw.random() < 0.6  # noqa: PLR2004
        self.is_missing = draw.random() < 0.01  # noqa: PLR2004
        self.bad_step = None if self.passed or draw.random() < 0.3 else draw.randrange(STEPS)  # noqa: PLR2004
        self.digest = hashlib.sha256(self.name.encode()).hexdigest()

    def started(self) -> tuple[str, Payload]:
        spec = {
            "spec_id": self.name,
            "template": self.template,
            "env_seed": self.seed,
            "group_id": self.group,
            "sibling_index": self.index,
            "sweep": self.sweep,
            "candidate": self.candidate,
        }
        task = {
            "task_spec_id": f"{self.template}.{self.digest[:8]}",
            "instruction": "On the boat marketplace, open the boats page, filter by make and by price, sort from low to"
            " high, open the cheapest one and request details as Alex Morgan.",
            "task_class": "navigation",
            "environment": "marketplace",
            "max_steps": 40,
            "success_conditions": [f"oracle:{self.template}"],
        }
        memory = {"upto": 395, "folds": {"rewrites": 1}, "without": [], "digest": self.digest}
        applied = [] if self.candidate is None else [{"piece": self.candidate, "kind": "rewrite", "step": 0}]
        payload = {
            "run": self.name,
            "spec": spec,
            "task_spec": task,
            "artifact": {"weights": "base", "memory": memory},
            "executor": "plan",
            "plan": self.digest,
            "applied": applied,
            "arm": None,
            "subject": None,
        }
        return "RunStarted", payload

    def ended(self) -> Iterator[tuple[str, Payload]]:
        if self.is_missing:
            cause = {"reason": "environment_down", "detail": "no answer within 30 seconds"}
            yield "RunMissing", {"run": self.name, "group": self.group, **cause}
            return
        fingerprint = {"fingerprint": self.digest}
        yield "InstanceReset", {"run": self.name, "group": self.group, "seed": self.seed, **fingerprint}
        for index in range(STEPS):
            yield "StepTaken", self._step(index)
        usage = {"actions": STEPS, "wall_microseconds": 9124, "input_tokens": 0, "output_tokens": 0}
        state = {"status": "completed", "end_state": self.digest, "mutations": int(self.passed), "usage": usage}
        yield "RunFinished", {"run": self.name, **fingerprint, **state}
        yield "RewardGraded", self._grade()

    def _step(self, index: int) -> Payload:
        is_bad = index == self.bad_step
        return {
            "run": self.name,
            "index": index,
            "action": "navigate" if index % 3 == 0 else "click",
            "intent": f"step {index}, on the way to the boat that was asked for",
            "outcome": "no_such_link" if is_bad else "ok",
            "http_status": 200,
            "observation": self.digest,
        }

    def _grade(self) -> Payload:
        score = 1_000_000 if self.passed else 0
        return {
            "run": self.name,
            "group": self.group,
            "channel": "oracle",
            "version": "oracle-1",
            "score": score,
            "passed": self.passed,
            "reasons": [] if self.passed else ["the right lead_submitted is missing"],
            "terms": {"score": score, "lambda_per_dollar": 100_000, "penalty": 20},
            "prices": 1,
            "cost": 200,
            "value": score - 20,
        }


def _proposed(number: int, run: str) -> Entry:
    rewrite = f"rw-{number:012x}"
    payload = {
        "rewrite": rewrite,
        "anchor": {"type": "navigate", "intent": "open the boats page", "content": f"{number:064x}"},
        "change": {"kind": "follow_link", "page": "/", "label": "Boats for sale"},
        "rule": {"name": "seeds", "wins_to_promote": 3, "losses_to_demote": 2, "cold_after_days": 30},
        "run": run,
        "source": "page_links",
        "confidence": 750_000,
    }
    return Entry(f"propose:{rewrite}", f"rewrite/{rewrite}", (("RewriteProposed", payload),))


def _tried(number: int, run: str, *, is_won: bool) -> Entry:
    rewrite, kind = f"rw-{number:012x}", "RewriteWon" if is_won else "RewriteLost"
    payload = {"rewrite": rewrite, "run": run, "control_runs": [], "control_successes": 0}
    return Entry(f"credit:{run}", f"rewrite/{rewrite}", ((kind, payload),))


def fill(owner_engine: Engine, events: int, seed: int = 1) -> int:
    """Write at least `events` events into an empty log, whole appends; the number that was written.

    `owner_engine` connects as the schema's owner. The log passes `flywheel log verify`.
    """
    source, log = entries(seed), _Log()
    with owner_engine.begin() as connection:
        connection.execute(text("SELECT reserve_partitions(:upto)"), {"upto": events + 1000})
        driver: psycopg.Connection[Any] = connection.connection.driver_connection  # type: ignore[assignment]
        while log.position < events:
            target = min(events, log.position + _PART)
            part = _Part(bytearray(_HEADER), bytearray(_HEADER), bytearray(_HEADER))
            while log.position < target:
                for entry in islice(source, 1):
                    log.write(entry, part)
            _copy(driver, "events", _EVENT_COLUMNS, part.events)
            _copy(driver, "stream_versions", "stream, version, position", part.versions)
            _copy(driver, "append_keys", "key, digest, first_position, last_position", part.keys)
    with owner_engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("VACUUM ANALYZE events, stream_versions, append_keys"))
    return log.position


_EVENT_COLUMNS = "position, stream, version, at, actor, cause, type, schema_version, payload, digest, chain"


@dataclass(frozen=True, slots=True)
class _Part:
    events: bytearray
    versions: bytearray
    keys: bytearray


class _Log:
    def __init__(self) -> None:
        self.position = 0
        self._chain = GENESIS
        self._versions: dict[str, int] = {}
        self._at = _BEGAN

    def write(self, entry: Entry, part: _Part) -> None:
        self._at += _PAUSE
        stream, first = entry.stream.encode(), self.position + 1
        since_1970 = struct.pack(">q", (self._at - _UNIX_EPOCH) // _TICK)
        since_2000 = struct.pack(">q", (self._at - _PG_EPOCH) // _TICK)
        version, contents = self._versions.get(entry.stream, 0), []
        for kind, payload in entry.events:
            self.position += 1
            version += 1
            body, name = msgspec.json.encode(payload, order="deterministic"), kind.encode()
            contents.append(b'["%b",1,%b]' % (name, body))
            digest = hashlib.sha256(
                b'{"actor":"%b","cause":null,"payload":%b,"schema_version":1,"type":"%b"}'
                % (ACTOR.encode(), body, name)
            ).digest()
            place, number = struct.pack(">q", self.position), struct.pack(">q", version)
            length = struct.pack(">i", len(stream))
            self._chain = hashlib.sha256(self._chain + place + length + stream + number + since_1970 + digest).digest()
            row = (place, stream, number, since_2000, ACTOR.encode(), None, name, struct.pack(">i", 1))
            _pack(part.events, *row, b"\x01" + body, digest, self._chain)
            _pack(part.versions, stream, number, place)
        self._versions[entry.stream] = version
        if entry.key.startswith(("finish:", "credit:")):
            self._versions.pop(entry.stream if entry.stream.startswith("run/") else "", None)
        content = b'{"events":[%b],"stream":"%b"}' % (b",".join(contents), stream)
        key, last = entry.key.encode(), struct.pack(">q", self.position)
        _pack(part.keys, key, hashlib.sha256(content).digest(), struct.pack(">q", first), last)


def _pack(out: bytearray, *fields: bytes | None) -> None:
    out += struct.pack(">h", len(fields))
    for field in fields:
        out += _NULL if field is None else struct.pack(">i", len(field)) + field


def _copy(driver: psycopg.Connection[Any], table: str, columns: str, body: bytearray) -> None:
    statement = f"COPY {table} ({columns}) FROM STDIN (FORMAT BINARY)"
    with driver.cursor().copy(statement.encode()) as sink:
        sink.write(bytes(body) + _TRAILER)
