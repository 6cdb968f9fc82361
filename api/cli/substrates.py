"""`flywheel substrates`: what each way to learn was worth, by cluster."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from agents.learning.allocator import greedy, value_of
from projections.substrates import SUBSTRATES, SubstrateState

from ..errors import Unknown
from ..positions import read_position
from .output import AsJson, AsOf, emit_json, open_project, print_facts, print_rows, say, table

app = typer.Typer(help="Substrates: list, show.", no_args_is_help=True)

_LISTED = ("environment", "cluster", "substrate", "chosen", "pulls", "idle", "value_micro", "cost_micro", "is_best")
_HISTORY = ("since", "substrate", "pulls", "value_micro", "epsilon_micro")


@app.command("list")
def list_(as_of: AsOf = None, as_json: AsJson = False) -> None:
    """List what each substrate was worth in each cluster: mean reward above frozen siblings, and mean cost."""
    with open_project() as house:
        found = house.views(read_position(house.store, as_of)).find(SUBSTRATES).values()
    rows = [row for state in found for row in _rows(state)]
    print_rows(
        rows, _LISTED, as_json=as_json, empty="nothing was chosen yet; `flywheel run` does where pieces are on trial"
    )


@app.command()
def show(
    cluster: Annotated[str, typer.Argument(help="The environment and the cluster: marketplace/knowledge.")],
    as_of: AsOf = None,
    as_json: AsJson = False,
) -> None:
    """Show one cluster: its substrates, the chance of exploring, and how the values came about."""
    with open_project() as house:
        views = house.views(read_position(house.store, as_of))
        state = views.get(SUBSTRATES, cluster)
        if state is None:
            raise Unknown(what="cluster", actual=cluster, way_out="`flywheel substrates list` names them.")
        changes = views.history(SUBSTRATES, cluster)
    history = [
        {"since": change.since, "epsilon_micro": change.state.epsilon, **row}
        for change in changes
        if change.state is not None
        for row in _rows(change.state)
    ]
    if as_json:
        emit_json({"cluster": cluster, "epsilon_micro": state.epsilon, "substrates": _rows(state), "history": history})
        return
    print_facts([("cluster", cluster), ("epsilon_micro", state.epsilon), ("pulls", state.pulls)])
    say("")
    table(_LISTED[2:], [[row[name] for name in _LISTED[2:]] for row in _rows(state)])
    say("")
    table(_HISTORY, [[row[name] for name in _HISTORY] for row in history])


def _rows(state: SubstrateState) -> list[dict[str, Any]]:
    best = greedy(value_of(each.substrate, each) for each in state.substrates)
    return [
        {
            "environment": state.environment,
            "cluster": state.cluster,
            "substrate": each.substrate,
            "chosen": each.chosen,
            "pulls": each.pulls,
            "idle": each.idle,
            "value_micro": each.value,
            "cost_micro": each.mean_cost,
            "is_best": each.substrate == best,
        }
        for each in state.substrates
    ]
