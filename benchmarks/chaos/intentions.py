"""Requests of writers, generated from a number, and the journals that record intentions and acknowledgements."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.made import ACTOR, appends_of_run
from eventlog.events import RewardGraded, RewardTerms
from eventlog.store import Append, Committed, Outcome, Repeated

_RUNS_OF_A_LARGE_CALL = 45
SHARED = "shared"
_TAIL_BYTES = 16_384
"""An upper bound of the length of a journal line."""


def call(seed: int, writer: str, number: int) -> tuple[Append, ...]:
    """Appends of one call: a few runs, many runs, one stream shared by all writers, or a repeated key."""
    draw = random.Random(f"{seed}/{writer}/{number}")  # noqa: S311 a seeded choice, not a secret
    kind = draw.choices(("runs", "large", "shared", "twice"), (80, 4, 8, 8))[0]
    prefix = f"{writer}-{number}"
    if kind == "shared":
        return tuple(_shared(f"{prefix}-{index}") for index in range(draw.randint(1, 5)))
    runs = _RUNS_OF_A_LARGE_CALL if kind == "large" else draw.randint(1, 3)
    requests = tuple(request for run in range(runs) for request in appends_of_run(run, prefix))
    return requests + requests[:1] if kind == "twice" else requests


def _shared(name: str) -> Append:
    event = RewardGraded(
        run=name,
        group="shared",
        channel="oracle",
        version="oracle-1",
        score=0,
        passed=False,
        reasons=(),
        terms=RewardTerms(score=0, lambda_per_dollar=100_000, penalty=None),
        prices=1,
        cost=None,
        value=None,
    )
    return Append(SHARED, (event,), ACTOR, key=f"{SHARED}:{name}")


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The store's answer to one request: its positions, and whether it had been committed before."""

    first: int
    last: int
    is_repeated: bool


class Journal:
    """Journal file of one writer: an intention is synced before its append, an acknowledgement before the next one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        lines = list(entries(path))
        last: dict[str, Any] = lines[-1] if lines else {"n": 0, "acks": []}
        self.number = int(last["n"])
        self.is_pending = "acks" not in last
        whole = sum(len(_line(entry)) for entry in lines)
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.ftruncate(self._file, whole)

    def intend(self, number: int) -> None:
        """Record the number of the next call."""
        self._put({"n": number})
        self.number, self.is_pending = number, True

    def acknowledge(self, outcomes: Sequence[Outcome]) -> None:
        """Record the outcomes of the call."""
        self._put({"n": self.number, "acks": [_plain(outcome) for outcome in outcomes]})
        self.is_pending = False

    def _put(self, entry: dict[str, Any]) -> None:
        os.write(self._file, _line(entry))
        os.fsync(self._file)


def _line(entry: dict[str, Any]) -> bytes:
    return json.dumps(entry).encode() + b"\n"


def _plain(outcome: Outcome) -> list[Any]:
    match outcome:
        case Committed():
            return [outcome.first, outcome.last, False]
        case Repeated():
            return [outcome.first, outcome.last, True]
        case _:
            return [repr(outcome)]


def entries(path: Path) -> Iterator[dict[str, Any]]:
    """Complete lines of a journal; a line torn by a kill is ignored, because its call was never made."""
    if path.exists():
        for line in path.read_bytes().split(b"\n")[:-1]:
            yield json.loads(line)


def is_pending(path: Path) -> bool:
    """True if the last complete line is an intention, whose append is in progress."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
        lines = file.read().split(b"\n")[:-1]
    return bool(lines) and b"acks" not in lines[-1]


@dataclass(frozen=True, slots=True)
class Settled:
    """One request and all its answers; `refusals` are outcomes that these requests must never get."""

    request: Append
    answers: tuple[Acknowledged, ...]
    refusals: tuple[str, ...]


def settled(seed: int, journals: Sequence[Path]) -> Iterator[Settled]:
    """All acknowledged requests, one for each key."""
    for path in journals:
        for entry in entries(path):
            if "acks" in entry:
                requests = call(seed, path.stem, int(entry["n"]))
                by_key: dict[str, tuple[Append, list[list[Any]]]] = {}
                for request, ack in zip(requests, entry["acks"], strict=True):
                    by_key.setdefault(request.key, (request, []))[1].append(ack)
                for request, acks in by_key.values():
                    answers = tuple(Acknowledged(*ack) for ack in acks if len(ack) > 1)
                    yield Settled(request, answers, tuple(ack[0] for ack in acks if len(ack) == 1))


def unsettled(journals: Sequence[Path]) -> list[str]:
    """Journals whose last intention was never acknowledged."""
    return [path.stem for path in journals if is_pending(path)]
