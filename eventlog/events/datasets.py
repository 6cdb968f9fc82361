"""Datasets: a query and a position give one dataset."""

from __future__ import annotations

from typing import Literal

from .event import Count, Digest, Event, FrozenModel, Name, ScoreMicro


class SftQuery(FrozenModel):
    """Rejection sampling: runs at or above a score; optionally the best run of each group alone."""

    kind: Literal["sft"] = "sft"
    min_score: ScoreMicro = 1_000_000
    best_of_group: bool = False
    environment: Name | None = None


Query = SftQuery


class Refused(FrozenModel):
    """Runs that the query looked at and left out, and why."""

    reason: Name
    runs: Count


class DatasetFrozen(Event):
    """The rows that a query selects from the log up to a position; `dataset` is their content digest."""

    type: Literal["DatasetFrozen"] = "DatasetFrozen"
    dataset: Digest
    query: Query
    upto: Count
    rows: Count
    groups: Count
    refused: tuple[Refused, ...]
