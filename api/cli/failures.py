"""`flywheel failures`: why runs failed, by cluster."""

from __future__ import annotations

import msgspec
import typer

from ..queries.failures import MOST_FAILED, FailureList, list_failures
from .output import After, AsJson, AsOf, Limit, print_rows, say_more
from .sources import Server, open_source

app = typer.Typer(help="Failures: list the clusters.", no_args_is_help=True)


@app.command("list")
def list_(
    limit: Limit = MOST_FAILED,
    after: After = None,
    as_of: AsOf = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """List clusters of failed runs, largest first. The limit is one of failed runs, which come by name.

    A server answers with at most 1,000 failed runs at a time.
    """
    with open_source(server, as_of) as source:
        most = limit if server is None else min(limit, MOST_FAILED)
        found = source.read(
            FailureList,
            "/v1/failure-clusters",
            lambda _house, views: list_failures(views, after=after, limit=limit),
            after=after,
            limit=most,
        )
    rows = [{**msgspec.to_builtins(cluster), "count": len(cluster.runs)} for cluster in found.clusters]
    columns = ("count", "failure_class", "step_intent", "template", "environment")
    print_rows(
        rows, columns, as_json=as_json, empty="no failed runs" if after is None else f"no failed runs after {after}"
    )
    say_more(found.next)
