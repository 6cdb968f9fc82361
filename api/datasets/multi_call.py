"""Runs of several calls among the rows of a dataset: how many are split, and which are of agents outside."""

from __future__ import annotations

from dataclasses import dataclass, field

import polars as pl

from gate.figures import count_noun
from projections.runs import OUTSIDE

_RUNS = ("run", "chosen_run", "rejected_run")


@dataclass
class RunsOfRows:
    """Counts over batches of rows. A run is split if its calls do not extend one another token by token."""

    several: int = 0
    split: int = 0
    outside: set[str] = field(default_factory=set)

    def take(self, frame: pl.DataFrame) -> None:
        """Count a batch, which holds all rows of its runs."""
        for name in _RUNS:
            if name in frame.columns:
                named = frame[name].unique()
                self.outside.update(named.filter(named.str.starts_with(OUTSIDE)).to_list())
        if "calls" in frame.columns:
            runs = frame.group_by("run").agg(pl.len().alias("rows"), pl.col("calls").sum())
            self.several += runs.filter(pl.col("calls") > 1).height
            self.split += runs.filter(pl.col("rows") > 1).height

    def sentence(self) -> str | None:
        """The rate of split runs in words; None if no run made several calls."""
        if not self.several:
            return None
        of = f"{self.split} of {count_noun(self.several, 'run')} with several calls"
        if not self.split:
            return f"{of} are split: each prompt begins with the tokens before it."
        return (
            f"{of} are split ({self.split / self.several:.0%}): a prompt does not begin with the tokens of the call"
            " before, as where its server tokenises earlier answers again, so each part is a row of its own."
        )
