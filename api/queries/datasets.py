"""Datasets as they were frozen, and slices: the groups whose rows are registered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import asdict

from projections.engine.paging import PAGE
from projections.engine.views import Views
from projections.frozen_datasets import CHECKPOINTS, DatasetState
from projections.slices import SLICES, SliceState

from ..errors import Unknown
from .facts import find_state
from .paging import filter_page, page_after

Frozen = DatasetState | SliceState
"""Sources whose rows can be made again: a frozen dataset or a registered slice."""

DATASETS_LISTED: Final = "List them with `flywheel dataset list` or GET /v1/datasets."

_SHORTEST: Final = 8
_EVERY: Final = "dataset/"
GROUPS: Final = "group/"
"""How the place of a slice begins in a list of datasets and slices."""


class DatasetList(msgspec.Struct, frozen=True):
    """Datasets as they were frozen, in order of digest; `next` is the digest to continue after, or null."""

    datasets: tuple[DatasetState, ...]
    next: str | None = None


class DatasetAnswer(msgspec.Struct, frozen=True):
    """One dataset as it was frozen."""

    dataset: DatasetState


class SliceList(msgspec.Struct, frozen=True):
    """Slices as they were registered last, in order of group; `next` is the group to continue after, or null."""

    slices: tuple[SliceState, ...]
    next: str | None = None


class SliceAnswer(msgspec.Struct, frozen=True):
    """One slice as it was registered last."""

    slice: SliceState


class DatasetRow(DatasetState, frozen=True, kw_only=True):
    """A dataset with the kind of its query, and the group if it is of one alone."""

    kind: str | None
    group: str | None


class SliceRow(SliceState, frozen=True, kw_only=True):
    """A slice with the kind of its query; it is always of one group."""

    kind: str | None
    groups: int = 1


def page_datasets(
    views: Views, *, after: str | None = None, limit: int | None = None, like: Mapping[str, Any] | None = None
) -> DatasetList:
    """A page of the datasets whose digests sort after `after`, and whose queries have the fields of `like`."""
    start = None if after is None else f"{_EVERY}{after}"
    if like is not None:

        def keep(page: dict[str, DatasetState]) -> dict[str, DatasetState]:
            return {key: state for key, state in page.items() if _has_fields(state, like)}

        most = PAGE if limit is None else limit
        found, following = filter_page(views, CHECKPOINTS, keep, prefix=_EVERY, after=start, limit=most)
        return DatasetList(tuple(found.values()), None if following is None else following.removeprefix(_EVERY))
    page, following = page_after(views, CHECKPOINTS, start, limit, _EVERY)
    return DatasetList(tuple(page.values()), None if following is None else following.removeprefix(_EVERY))


def _has_fields(state: DatasetState, like: Mapping[str, Any]) -> bool:
    """True if a dataset's query has these values in these fields, where those left out of it have their defaults."""
    whole = state.parse_query().model_dump(mode="json")
    return all(name in whole and whole[name] == value for name, value in like.items())


def page_slices(views: Views, *, after: str | None = None, limit: int | None = None) -> SliceList:
    """A page of the slices whose groups sort after `after`."""
    page, following = page_after(views, SLICES, after, limit)
    return SliceList(tuple(page.values()), following)


def find_dataset(views: Views, digest: str) -> DatasetState:
    """A dataset by its digest, or by at least the first eight characters of it. Raises Unknown."""
    found = list(views.find(CHECKPOINTS, f"{_EVERY}{digest}").values()) if len(digest) >= _SHORTEST else []
    if len(found) != 1:
        way_out = "Give more of its characters." if found else DATASETS_LISTED
        raise Unknown(what="dataset", actual=digest, way_out=way_out)
    return found[0]


def last_slice(views: Views, group: str) -> SliceState | None:
    """The slice of a group as it was registered last; None if none was."""
    return views.get(SLICES, group)


def find_slice(views: Views, group: str) -> SliceState:
    """The slice of a group. Raises Unknown."""
    way_out = "Register it with `flywheel dataset slice --group GROUP`, or list slices with GET /v1/slices."
    return find_state(views, SLICES, group, what="slice", way_out=way_out)


def show_dataset(views: Views, digest: str) -> DatasetAnswer:
    """One dataset. Raises Unknown."""
    return DatasetAnswer(dataset=find_dataset(views, digest))


def show_slice(views: Views, group: str) -> SliceAnswer:
    """One slice. Raises Unknown."""
    return SliceAnswer(slice=find_slice(views, group))


def find_frozen(views: Views, name: str) -> Frozen:
    """The slice of the group of that name, or else the dataset of that digest. Raises Unknown."""
    return views.get(SLICES, name) or find_dataset(views, name)


def page_frozen(views: Views, *, after: str | None = None, limit: int) -> tuple[tuple[Frozen, ...], str | None]:
    """A page of the datasets in order of digest, then of the slices in order of group; and where it goes on.

    A place among the slices is their group after GROUPS.
    """
    found: tuple[Frozen, ...] = ()
    group = None if after is None or not after.startswith(GROUPS) else after.removeprefix(GROUPS)
    if group is None:
        datasets = page_datasets(views, after=after, limit=limit)
        if datasets.next is not None:
            return datasets.datasets, datasets.next
        found = datasets.datasets
    if len(found) == limit:
        return found, GROUPS if page_slices(views, limit=1).slices else None
    slices = page_slices(views, after=group, limit=limit - len(found))
    return (*found, *slices.slices), None if slices.next is None else f"{GROUPS}{slices.next}"


def frozen_row(state: Frozen) -> DatasetRow | SliceRow:
    """A dataset or a slice as the commands list it."""
    kind = state.query.get("kind")
    if isinstance(state, DatasetState):
        return DatasetRow(**asdict(state), kind=kind, group=state.query.get("group"))
    return SliceRow(**asdict(state), kind=kind)
