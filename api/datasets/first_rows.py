"""The first rows of a dataset, made again from the log, where it is small enough for that."""

from __future__ import annotations

from typing import Any, Final

from projections.engine.views import Views
from projections.frozen_datasets import DatasetState

from ..errors import TooManyRows
from ..house import House
from .freeze import load

MOST_ROWS: Final = 5_000
"""A dataset of more rows than this is not made again to show a few of them."""


def first_rows(house: House, views: Views, state: DatasetState, limit: int) -> list[dict[str, Any]]:
    """At most `limit` rows. Raises TooManyRows, and as `load`."""
    if state.rows > MOST_ROWS:
        raise TooManyRows(dataset=state.dataset[:12], actual=state.rows, expected=MOST_ROWS)
    return load(house.store, house.blobs, house.views, state.dataset, as_of=views.upto).rows.head(limit).to_dicts()
