"""`flywheel failures`: why runs failed, by cluster."""

from __future__ import annotations

import dataclasses

import typer

from projections.contamination import contaminated_runs
from projections.failures import FAILURES, clusters

from ..positions import read_position
from .output import AsJson, AsOf, open_project, print_rows

app = typer.Typer(help="Failures: list the clusters.", no_args_is_help=True)


@app.command("list")
def list_(as_of: AsOf = None, as_json: AsJson = False) -> None:
    """List clusters of failed runs, largest first."""
    with open_project() as house:
        views = house.views(read_position(house.store, as_of))
        found = clusters(views.find(FAILURES).values(), contaminated_runs(views))
    rows = [{**dataclasses.asdict(cluster), "count": len(cluster.runs)} for cluster in found]
    columns = ("count", "failure_class", "step_intent", "template", "environment")
    print_rows(rows, columns, as_json=as_json, empty="no failed runs")
