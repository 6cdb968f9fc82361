"""Frozen datasets, on which checkpoints are trained."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import field

from eventlog import events

from .engine.projection import EventRow, Fold, FoldState

if TYPE_CHECKING:
    from eventlog.events import Query


class DatasetState(FoldState, frozen=True, kw_only=True):
    """A frozen dataset: digest, query, position, size."""

    dataset: str = ""
    query: dict[str, Any] = field(default_factory=dict)
    upto: int = 0
    rows: int = 0
    groups: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    frozen_since: int = 0

    def parse_query(self) -> Query:
        """The query of the dataset."""
        return events.query_of(self.query)


def _fold(_state: DatasetState, row: EventRow) -> DatasetState:
    return DatasetState(
        dataset=row.text("dataset"),
        query=row.record("query"),
        upto=row.number("upto"),
        rows=row.number("rows"),
        groups=row.number("groups"),
        refused={item["reason"]: item["runs"] for item in row.records("refused")},
        frozen_since=row.position,
    )


CHECKPOINTS = Fold(
    name="checkpoints",
    version=2,
    reads={"DatasetFrozen": ("dataset", "query", "upto", "rows", "groups", "refused")},
    initial=DatasetState(),
    key=lambda row: f"dataset/{row.text('dataset')}",
    fold=_fold,
)
