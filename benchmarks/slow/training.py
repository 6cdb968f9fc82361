"""Training runs as processes of their own, a few at a time, and the datasets that they read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

from api import datasets
from api.house import House
from api.stage_process import lines_of
from eventlog.events import Query
from eventlog.store import Position
from trainer.request import DatasetRef, Request, WarmupRequest

T = TypeVar("T")


class NoCheckpoint(RuntimeError):
    """A training run ended without a checkpoint; the message is what it said last."""


@dataclass(frozen=True, slots=True)
class Saved:
    """What a training run left: a base model or a checkpoint, and what it said on the way."""

    digest: str
    folder: Path
    lines: tuple[Mapping[str, object], ...]

    def last(self, measure: str) -> float | None:
        """A measure of the last step; None where the algorithm has none."""
        steps = [line for line in self.lines if line["kind"] == "step"]
        found = steps[-1].get(measure) if steps else None
        return float(found) if isinstance(found, (int, float)) else None


def frozen(house: House, query: Query, folder: Path, name: str, upto: Position) -> tuple[DatasetRef, datasets.Made]:
    """Freeze a dataset at a position, with its rows in a file. Raises EmptyDataset."""
    file = folder / f"{name}.parquet"
    made = datasets.refuse_empty(datasets.write(house.store, house.blobs, house.views(upto), query, file))
    digest = datasets.freeze(house.store, made, "demo")
    return DatasetRef(path=str(file), digest=digest, upto=made.upto), made


def trained(request: Request | WarmupRequest) -> Saved:
    """Run one training process to its end. Raises NoCheckpoint."""
    Path(request.out).mkdir(parents=True, exist_ok=True)
    content = request.model_dump_json()
    file = Path(request.out) / f".request-{sha256(content.encode()).hexdigest()[:16]}.json"
    file.write_text(content)
    lines = tuple(lines_of(file))
    file.unlink()
    last = lines[-1]
    if last["kind"] != "saved":
        raise NoCheckpoint(last.get("message", last))
    return Saved(last.get("checkpoint") or last["base"], Path(last["path"]), lines)


def side_by_side(calls: Sequence[Callable[[], T]], processes: int, advance: Callable[[], object]) -> list[T]:
    """The results in order, so many at a time."""

    def one(call: Callable[[], T]) -> T:
        found = call()
        advance()
        return found

    with ThreadPoolExecutor(processes) as pool:
        return list(pool.map(one, calls))
