"""Dataset cards in Markdown: origin, columns, refusals and policies of a dataset."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import polars as pl

from eventlog.blobs import Inventory
from eventlog.store import EventStore, Position
from projections.datasets.refusals import REFUSALS
from projections.judges import Calibration
from projections.slices import SliceState

from ..queries.datasets import Frozen
from .freeze import DatasetSummary, ViewsAt, again, make_rows
from .judged import calibration_of, describe_calibration
from .multi_call import RunsOfRows
from .row_batches import is_of_plans, row_schema

_RUNS = ("run", "chosen_run", "rejected_run")
_IDS = ("prompt_ids", "completion_ids", "chosen_ids", "rejected_ids")
_POLICY = ("weights", "model", "temperature")
_TRUNCATED = ("truncated", "chosen_truncated", "rejected_truncated")


@dataclass
class _Seen:
    """Statistics of the rows seen so far."""

    first: int | None = None
    last: int = 0
    runs: int = 0
    truncated: int = 0
    before: str = ""
    tokens: Counter[str] = field(default_factory=Counter)
    policies: Counter[tuple[str, ...]] = field(default_factory=Counter)
    of_runs: RunsOfRows = field(default_factory=RunsOfRows)

    def take(self, frame: pl.DataFrame) -> None:
        """Count a batch. Rows of a run are adjacent; a run in pairs counts once per group."""
        self.of_runs.take(frame)
        positions = frame["position"].to_list()
        self.first = min(positions) if self.first is None else min(self.first, *positions)
        self.last = max(self.last, *positions)
        named = [frame[name] for name in _RUNS if name in frame.columns]
        self.runs += pl.concat([series.alias("run") for series in named]).n_unique()
        for name in _IDS:
            if name in frame.columns:
                self.tokens[name] += int(frame[name].list.len().sum())
        if cut := [name for name in _TRUNCATED if name in frame.columns]:
            self.truncated += int(frame.select(pl.any_horizontal(cut).sum()).item())
        if "weights" in frame.columns:
            self.policies.update(zip(*(map(str, frame[name].to_list()) for name in _POLICY), strict=True))


def card_of(store: EventStore, blobs: Inventory, views_at: ViewsAt, frozen: Frozen) -> str:
    """Write the card of a dataset, rebuilding its rows. Raises DatasetDiffers, DatasetErased, and as `make_rows`."""
    seen, views = _Seen(), views_at(Position(frozen.upto))
    judged = calibration_of(store, views, frozen.parse_query())
    made = again(frozen, lambda: make_rows(store, blobs, views, frozen.parse_query(), seen.take))
    return "\n".join(_lines(frozen, made, seen, judged)) + "\n"


def _lines(frozen: Frozen, made: DatasetSummary, seen: _Seen, judged: Calibration | None) -> Iterator[str]:
    of = f"the group {frozen.group}" if isinstance(frozen, SliceState) else f"{made.groups} groups"
    yield from (f"# Dataset {made.digest[:8]}", "")
    yield f"{made.height} rows for {made.query.kind}, of {seen.runs} runs in {of}."
    if judged is not None:
        yield from ("", f"{describe_calibration(judged).capitalize()}.")
    yield from ("", "| | |", "|---|---|")
    yield f"| digest of the rows' content | `{made.digest}` |"
    yield f"| query | `{json.dumps(made.query.model_dump(mode='json'), sort_keys=True)}` |"
    yield f"| selected at position | {made.upto} |"
    yield f"| finished at positions | {'none' if seen.first is None else f'{seen.first} to {seen.last}'} |"
    yield from (f"| tokens in `{name}` | {amount} |" for name, amount in seen.tokens.items())
    if not is_of_plans(made.query):
        yield f"| rows with an answer truncated at its maximum length | {seen.truncated} |"
        yield f"| runs with several calls, and how many are split | {seen.of_runs.several}, {seen.of_runs.split} |"
    refused = ((f"`{item.reason}`", str(item.runs), REFUSALS.get(item.reason, "")) for item in made.refused)
    yield from _table("## Refused", ("reason", "runs", "means"), refused)
    columns = ((f"`{name}`", f"`{dtype}`") for name, dtype in row_schema(made.query).items())
    yield from _table("## Columns", ("column", "type"), columns)
    if not is_of_plans(made.query):
        rows = ((*policy, str(amount)) for policy, amount in sorted(seen.policies.items()))
        yield from _table("## Drawn by", (*_POLICY, "rows"), rows)
    yield from ("", "## Where it comes from", "")
    yield "Every row names its run and group. The events of a run are its stream: `flywheel runs show RUN`."
    name = frozen.group if isinstance(frozen, SliceState) else made.digest
    yield f"`flywheel dataset verify {name}` rebuilds the rows from the log and compares their digest."


def _table(title: str, columns: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    """A section with a table, or nothing if there are no rows."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    if lines:
        yield from ("", title, "", f"| {' | '.join(columns)} |", "|---" * len(columns) + "|", *lines)
