"""Training: the stages and what they saved, and the curves of one of them while it runs."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from ..queries.checkpoints import page_checkpoints
from ..queries.trainings import Curves, list_trainings, show_training
from ..routes.as_of import HouseOf, Id, Reading
from .pages import render_page

router = APIRouter()

PAGE = 25
Name = Annotated[str, Query(max_length=200)]


@router.get("/training")
def trainings(request: Request, views: Reading, after: Name = "", after_checkpoint: Name = "") -> Response:
    """Stages in order of name, and checkpoints in order of digest."""
    return render_page(
        request,
        "trainings.html",
        area="training",
        position=views.upto,
        stages=list_trainings(views, after=after or None, limit=PAGE),
        saved=page_checkpoints(views, after=after_checkpoint or None, limit=PAGE),
    )


@router.get("/training/{name:path}")
def one_training(request: Request, house: HouseOf, views: Reading, name: Id) -> Response:
    """One stage with its curves, which move while it runs."""
    return _show(request, house, views, name, "training.html")


@router.get("/parts/training/{name:path}")
def live_training(request: Request, house: HouseOf, views: Reading, name: Id) -> Response:
    """The moving parts of a stage's page."""
    return _show(request, house, views, name, "parts/curves.html")


def _show(request: Request, house: HouseOf, views: Reading, name: str, template: str) -> Response:
    found = show_training(house.store, views, name)
    plots = [(metric, plot_metric(found.curves, metric)) for metric in found.curves.metrics]
    return render_page(
        request,
        template,
        area="training",
        position=views.upto,
        state=found.training,
        curves=found.curves,
        plots=plots,
    )


def plot_metric(curves: Curves, metric: str) -> dict[str, Any]:
    """The picture of one metric over the steps."""
    series = [{"label": metric.replace("_", " "), "values": list(curves.metrics[metric]), "kind": "line"}]
    return {"x": list(curves.steps), "xLabel": "step", "percent": False, "range": None, "series": series}
