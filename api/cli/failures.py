"""`flywheel failures`: why runs failed, by cluster."""

from __future__ import annotations

import msgspec
import typer

from ..queries.failures import MOST_FAILED, list_failures
from .output import After, AsJson, AsOf, Limit, open_project, print_rows, say_more

app = typer.Typer(help="Failures: list the clusters.", no_args_is_help=True)


@app.command("list")
def list_(limit: Limit = MOST_FAILED, after: After = None, as_of: AsOf = None, as_json: AsJson = False) -> None:
    """List clusters of failed runs, largest first. The limit is one of failed runs, which come by name."""
    with open_project() as house:
        found = list_failures(house.views_at(as_of), after=after, limit=limit)
    rows = [{**msgspec.to_builtins(cluster), "count": len(cluster.runs)} for cluster in found.clusters]
    columns = ("count", "failure_class", "step_intent", "template", "environment")
    print_rows(
        rows, columns, as_json=as_json, empty="no failed runs" if after is None else f"no failed runs after {after}"
    )
    say_more(found.next)
