"""Groups and datasets: what siblings earned, what was frozen and refused, where it went, and some of its rows."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import Response

from eventlog.errors import FlywheelError
from projections.datasets.refusals import REFUSALS

from ..queries.checkpoints import checkpoints_of_dataset
from ..queries.datasets import find_dataset, page_datasets, page_slices
from ..queries.groups import list_groups, show_group
from ..routes.as_of import HouseOf, Id, Reading
from .pages import render_page

router = APIRouter()

PAGE = 25
SHOWN_ROWS = 20

Name = Annotated[str, Query(max_length=200)]
Shown = Annotated[bool, Query()]
Digest = Annotated[str, Path(pattern=r"^[0-9a-f]{8,64}$")]


@router.get("/groups")
def groups(
    request: Request, views: Reading, *, prefix: Name = "", after: Name = "", evaluations: Shown = False
) -> Response:
    """A page of groups in order of name, each with the spread of its rewards; those of evaluations where asked for."""
    has_evaluations = evaluations or bool(prefix)
    found = list_groups(views, prefix=prefix, after=after or None, limit=PAGE, has_evaluations=has_evaluations)
    return render_page(
        request,
        "groups.html",
        area="groups",
        position=views.upto,
        found=found.groups,
        prefix=prefix,
        evaluations=evaluations,
        following=found.next,
    )


@router.get("/groups/{group:path}")
def one_group(request: Request, views: Reading, group: Id) -> Response:
    """One group with its siblings and their advantages."""
    return render_page(request, "group.html", area="groups", position=views.upto, row=show_group(views, group))


@router.get("/datasets")
def datasets(request: Request, views: Reading, after: Name = "", after_slice: Name = "") -> Response:
    """Datasets in order of digest, and slices in order of group."""
    frozen = page_datasets(views, after=after or None, limit=PAGE)
    slices = page_slices(views, after=after_slice or None, limit=PAGE)
    return render_page(
        request, "datasets.html", area="datasets", position=views.upto, frozen=frozen, slices=slices, after=after
    )


@router.get("/datasets/{digest}")
def one_dataset(request: Request, views: Reading, digest: Digest) -> Response:
    """One dataset: its query, what was refused and why, and the checkpoints that were trained on it."""
    state = find_dataset(views, digest)
    return render_page(
        request,
        "dataset.html",
        area="datasets",
        position=views.upto,
        state=state,
        refused=[(reason, runs, REFUSALS.get(reason, "")) for reason, runs in state.refused.items()],
        checkpoints=checkpoints_of_dataset(views, state.dataset),
    )


@router.get("/parts/rows/{digest}")
def rows(request: Request, house: HouseOf, views: Reading, digest: Digest) -> Response:
    """The first rows of a dataset, made again from the log, as a part of its page."""
    state = find_dataset(views, digest)
    from ..datasets.first_rows import first_rows  # noqa: PLC0415 it brings Polars

    found: list[dict[str, Any]] = []
    refused = None
    try:
        found = first_rows(house, views, state, SHOWN_ROWS)
    except FlywheelError as error:
        refused = str(error)
    return render_page(request, "parts/rows.html", found=found, refused=refused, total=state.rows)
