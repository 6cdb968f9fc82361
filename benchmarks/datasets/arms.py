"""Two implementations that build the same rows: ours in batches, and a plain loop."""

from __future__ import annotations

import hashlib
import json
import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from api.datasets import freeze
from benchmarks.memory import peak_mib
from eventlog.blobs import PostgresBlobs
from eventlog.blobs.conversations import get_messages
from eventlog.database import open_engine
from eventlog.events import GrpoQuery, ModelCalled, RunFinished
from eventlog.postgres import PostgresStore
from eventlog.store import Position
from projections.benchmarks import BENCHMARKS
from projections.engine.paging import page_states
from projections.engine.projector import Projector
from projections.engine.views import PostgresViews, catch_up_views
from projections.groups import GROUPS, GroupState, page_groups
from projections.taint import TAINT

QUERY = GrpoQuery(reward="shaped")
_FOLDS = (BENCHMARKS, GROUPS, TAINT)


@dataclass(frozen=True, slots=True)
class Timed:
    """Wall-clock seconds and CPU seconds of a process, and the number of its rows.

    `peak_mib` is its peak memory.
    """

    seconds: float
    cpu_seconds: float
    rows: int
    peak_mib: float


def fold(url: str, project: str) -> Position:
    """Fold the projections that datasets read, so that no arm waits for it; return the position."""
    engine = open_engine(url, project)
    reached = Projector(engine, _FOLDS).catch_up()
    engine.dispose()
    return reached


def views_on(url: str, project: str, upto: Position | None) -> tuple[PostgresStore, PostgresBlobs, PostgresViews]:
    """Open a log, its blobs and its views at a position."""
    engine = open_engine(url, project)
    store = PostgresStore(engine)
    return store, PostgresBlobs(engine), catch_up_views(Projector(engine, _FOLDS), engine, store, as_of=upto)


def ours(url: str, project: str, upto: Position, file: str) -> Timed:
    """Build the rows at a position into a Parquet file, like `flywheel dataset build grpo --file`."""
    store, blobs, views = views_on(url, project, upto)
    before = time.perf_counter(), time.process_time()
    made = freeze.write_dataset(store, blobs, views, QUERY, Path(file))
    return _timed(before, made.height)


def plain_loop(url: str, project: str, upto: Position, groups: int, file: str) -> Timed:
    """Loop over the first groups, reading runs and blobs one by one into Python lists, and write one file."""
    store, blobs, views = views_on(url, project, upto)
    names = next(page_groups(page_states(views, GROUPS), groups))
    before = time.perf_counter(), time.process_time()
    rows = [row for group in names.values() for row in _rows_of(store, blobs, group, upto)]
    content = hashlib.sha256()
    for row in rows:
        content.update(hashlib.sha256(json.dumps(row, sort_keys=True).encode()).digest())
    pl.DataFrame(rows).write_parquet(file)
    return _timed(before, len(rows))


def _timed(before: tuple[float, float], rows: int) -> Timed:
    return Timed(time.perf_counter() - before[0], time.process_time() - before[1], rows, peak_mib())


def _rows_of(store: PostgresStore, blobs: PostgresBlobs, group: GroupState, upto: Position) -> list[dict[str, Any]]:
    rewards = [(sibling.shaped or 0) / 1e6 for sibling in group.siblings]
    mean, std = statistics.mean(rewards), statistics.stdev(rewards)
    rows = []
    for sibling, reward in zip(group.siblings, rewards, strict=True):
        events = list(store.read(stream=f"run/{sibling.run}", upto=upto))
        calls = [each.event for each in events if isinstance(each.event, ModelCalled)]
        row: dict[str, Any] = {"prompt_ids": [], "completion_ids": [], "logprobs": [], "mask": []}
        whole: list[int] = []
        messages: list[dict[str, str]] = []
        for number, call in enumerate(calls):
            answer = json.loads(blobs.get(call.completion).body)
            sample, prompt = answer["samples"][0], answer["prompt_token_ids"]
            messages = [_turn(said) for said in get_messages(blobs, call.messages)]
            if number == 0:
                row["prompt_ids"], row["prompt"] = prompt, messages
            else:
                if prompt[: len(whole)] != whole:
                    raise ValueError(f"call {number} of {sibling.run} does not extend the previous call")
                for token in prompt[len(whole) :]:
                    row["completion_ids"].append(token)
                    row["logprobs"].append(0.0)
                    row["mask"].append(0)
            for token, logprob in zip(sample["token_ids"], sample["logprobs"], strict=True):
                row["completion_ids"].append(token)
                row["logprobs"].append(logprob)
                row["mask"].append(1)
            whole = prompt + sample["token_ids"]
            messages = [*messages, {"role": "assistant", "content": sample["text"]}]
        row["completion"] = messages[len(row["prompt"]) :]
        row["advantage"] = (reward - mean) / (std + 1e-4)
        row |= {"run": sibling.run, "group": group.group, "reward": sibling.shaped}
        row["position"] = next(each.position for each in events if isinstance(each.event, RunFinished))
        rows.append(row)
    return rows


def _turn(said: Mapping[str, Any]) -> dict[str, str]:
    return {"role": said["role"], "content": said["parts"][0]["text"]}


def differ(ours_file: Path, loop_file: Path) -> str | None:
    """First column in which our first rows differ from the loop's rows; None if they are equal."""
    theirs = pl.read_parquet(loop_file)
    mine = pl.scan_parquet(ours_file).head(theirs.height).collect()
    for name in theirs.columns:
        if name == "advantage":
            if ((mine[name] - theirs[name]).abs() > 1e-8).any():  # noqa: PLR2004 nine places are stored
                return name
        elif not mine[name].cast(theirs[name].dtype).equals(theirs[name]):
            return name
    return None
