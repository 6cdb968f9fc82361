"""Slices: the groups whose rows are registered as a shard."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import field

from eventlog import events

from .engine.projection import EventRow, Fold, FoldState

if TYPE_CHECKING:
    from eventlog.events import Query


class SliceState(FoldState, frozen=True, kw_only=True):
    """The newest registration of a group: digest, query, position, size."""

    group: str = ""
    dataset: str = ""
    query: dict[str, Any] = field(default_factory=dict)
    upto: int = 0
    rows: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    registered_since: int = 0

    def parse_query(self) -> Query:
        """The query of the slice."""
        return events.query_of(self.query)


def _fold(_state: SliceState, row: EventRow) -> SliceState:
    return SliceState(
        group=row.text("group"),
        dataset=row.text("dataset"),
        query=row.record("query"),
        upto=row.number("upto"),
        rows=row.number("rows"),
        refused={item["reason"]: item["runs"] for item in row.records("refused")},
        registered_since=row.position,
    )


SLICES = Fold(
    name="slices",
    version=2,
    reads={"SliceRegistered": ("group", "dataset", "query", "upto", "rows", "refused")},
    initial=SliceState(),
    key=lambda row: row.text("group"),
    fold=_fold,
)
