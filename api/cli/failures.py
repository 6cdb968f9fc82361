"""`flywheel failures`: why runs failed, by cluster."""

from __future__ import annotations

import msgspec
import typer

from ..queries.failures import list_failures
from .output import AsJson, AsOf, open_project, print_rows

app = typer.Typer(help="Failures: list the clusters.", no_args_is_help=True)


@app.command("list")
def list_(as_of: AsOf = None, as_json: AsJson = False) -> None:
    """List clusters of failed runs, largest first."""
    with open_project() as house:
        found = list_failures(house.views_at(as_of))
    rows = [{**msgspec.to_builtins(cluster), "count": len(cluster.runs)} for cluster in found.clusters]
    columns = ("count", "failure_class", "step_intent", "template", "environment")
    print_rows(rows, columns, as_json=as_json, empty="no failed runs")
