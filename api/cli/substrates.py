"""`flywheel substrates`: what each way to learn was worth, by cluster."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from gate.figures import decimal, dollars

from ..queries.history import Since
from ..queries.substrates import SubstrateAnswer, SubstrateCluster, SubstratePage, list_clusters, show_cluster
from .output import (
    SHOWN,
    After,
    AsJson,
    AsOf,
    Limit,
    emit_json,
    none_of,
    print_facts,
    print_rows,
    say,
    say_more,
)
from .sources import Server, Source, open_source, quote_name

app = typer.Typer(help="Substrates: list, show.", no_args_is_help=True)

_LISTED = ("environment", "cluster", "substrate", "chosen", "pulls", "idle", "value", "cost", "is_best")
_HISTORY = ("since", "substrate", "pulls", "value", "weight")


@app.command("list")
def list_(
    limit: Limit = SHOWN,
    after: After = None,
    as_of: AsOf = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """List what each substrate was worth in each cluster: mean reward above frozen siblings, and mean cost.

    The limit is one of clusters.
    """
    with open_source(server, as_of) as source:
        found, following = source.pages(
            SubstratePage,
            "clusters",
            "/v1/substrates",
            lambda _house, views: list_clusters(views, after, limit),
            after,
            limit,
        )
    rows = [row for cluster in found for row in _rows(cluster)]
    told = rows if as_json else [_in_words(row) for row in rows]
    empty = none_of("choices", "`flywheel run` makes some when pieces are on trial", after)
    print_rows(told, _LISTED, as_json=as_json, empty=empty)
    say_more(following)


@app.command()
def show(
    cluster: Annotated[str, typer.Argument(help="The environment and the cluster: shop/knowledge.")],
    as_of: AsOf = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Show one cluster: its substrates, how they are chosen, and how the values changed."""
    with open_source(server, as_of) as source:
        found = _whole_cluster(source, cluster)
    present, rows = found.cluster, _rows(found.cluster)
    history = [
        {"since": change.since, "epsilon_micro": change.state.epsilon, **row}
        for change in found.history
        if change.state is not None
        for row in _rows(change.state)
    ]
    if as_json:
        facts = {"epsilon_micro": present.epsilon, "keep_micro": present.keep}
        emit_json({"cluster": cluster, **facts, "substrates": rows, "history": history})
        return
    way = f"each credited run weighs {decimal(present.keep)} of itself after the next"
    if present.epsilon is not None:
        way = f"with epsilon {decimal(present.epsilon)}, by the mean of all credited runs"
    print_facts([("cluster", cluster), ("chosen", way), ("pulls", present.pulls)])
    say("")
    print_rows([_in_words(row) for row in rows], _LISTED[2:], as_json=False, empty="")
    say("")
    print_rows([_in_words(row) for row in history], _HISTORY, as_json=False, empty="")


def _whole_cluster(source: Source, cluster: str) -> SubstrateAnswer:
    """A cluster with its whole history, which a server gives in pages."""
    path = f"/v1/substrates/{quote_name(cluster)}"
    after: int | None = None
    history: tuple[Since[SubstrateCluster], ...] = ()
    while True:
        found = source.read(SubstrateAnswer, path, lambda _house, views: show_cluster(views, cluster), after=after)
        history, after = (*history, *found.history), found.next
        if after is None:
            return SubstrateAnswer(found.cluster, history, None)


def _in_words(row: dict[str, Any]) -> dict[str, Any]:
    """A row whose micro-units are written as decimals and dollars."""
    micro = {name: row.get(f"{name}_micro") for name in ("value", "weight", "cost")}
    known = {
        name: dollars(amount) if name == "cost" else decimal(amount)
        for name, amount in micro.items()
        if amount is not None
    }
    return row | known


def _rows(cluster: SubstrateCluster) -> list[dict[str, Any]]:
    return [
        {
            "environment": cluster.environment,
            "cluster": cluster.cluster,
            "substrate": each.substrate,
            "chosen": each.chosen,
            "pulls": each.pulls,
            "idle": each.idle,
            "value_micro": each.value,
            "cost_micro": each.mean_cost,
            "weight_micro": each.weight,
            "is_best": each.substrate == cluster.best,
        }
        for each in cluster.substrates
    ]
