"""Datasets and slices of a source, which a server gives under paths of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from projections.frozen_datasets import DatasetState

from ..errors import Unknown
from ..queries.checkpoints import DIGEST
from ..queries.datasets import (
    DATASETS_LISTED,
    GROUPS,
    DatasetAnswer,
    DatasetList,
    Frozen,
    SliceAnswer,
    SliceList,
    find_slice,
    page_frozen,
    show_dataset,
)
from .sources import LogSource, ServerSource, Source, open_server, quote_name

_MEDIA: Final = {
    ".parquet": "application/vnd.apache.parquet",
    ".ndjson": "application/x-ndjson",
    ".arrow": "application/vnd.apache.arrow.stream",
}


def page_of_source(source: Source, after: str | None, limit: int) -> tuple[list[Frozen], str | None]:
    """A page of the datasets in order of digest, then of the slices in order of group; and where it goes on."""
    if isinstance(source, LogSource):
        page, following = page_frozen(source.views, after=after, limit=limit)
        return list(page), following
    found: list[Frozen] = []
    group = None if after is None or not after.startswith(GROUPS) else after.removeprefix(GROUPS)
    if group is None:
        datasets, following = source.pages(DatasetList, "datasets", "/v1/datasets", None, after, limit)
        found += datasets
        if following is not None:
            return found, following
    if len(found) == limit:
        return found, GROUPS if _has_slices(source) else None
    slices, following = source.pages(SliceList, "slices", "/v1/slices", None, group or None, limit - len(found))
    return [*found, *slices], None if following is None else f"{GROUPS}{following}"


def _has_slices(source: ServerSource) -> bool:
    return bool(source.pages(SliceList, "slices", "/v1/slices", None, None, 1)[0])


def find_in_source(source: Source, name: str) -> Frozen:
    """The slice of the group of that name, or else the dataset of that digest. Raises Unknown."""
    path = quote_name(name)
    try:
        one = source.read(SliceAnswer, f"/v1/slices/{path}", lambda _house, views: SliceAnswer(find_slice(views, name)))
    except Unknown:
        return find_served_dataset(source, name)
    return one.slice


def find_served_dataset(source: Source, name: str) -> DatasetState:
    """The dataset of that digest. Raises Unknown."""
    if not DIGEST.fullmatch(name):
        raise Unknown(what="dataset", actual=name, way_out=DATASETS_LISTED)
    path = f"/v1/datasets/{quote_name(name)}"
    return source.read(DatasetAnswer, path, lambda _house, views: show_dataset(views, name)).dataset


def save_rows(server: str, name: str, file: Path) -> int:
    """Write the rows of a dataset or a slice to a file that appears whole or not at all. Returns how many there are."""
    unfinished = file.with_name(f".partial-{file.name}")
    with open_server(server) as source:
        frozen = find_in_source(source, name)
        where = (
            f"datasets/{frozen.dataset}" if isinstance(frozen, DatasetState) else f"slices/{quote_name(frozen.group)}"
        )
        try:
            source.download(f"/v1/{where}/rows", _MEDIA[file.suffix], unfinished)
            unfinished.replace(file)
        finally:
            unfinished.unlink(missing_ok=True)
    return frozen.rows


def save_card(server: str, name: str) -> str:
    """The card of a dataset in Markdown. Raises Unknown."""
    with open_server(server) as source:
        digest = find_served_dataset(source, name).dataset
        return source.fetch(f"/v1/datasets/{digest}/card", {}, {}).text
