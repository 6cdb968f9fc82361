"""Substrates: what each way to learn was worth in each cluster, and how that came about."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from projections.engine.projection import state_json
from projections.substrates import SUBSTRATES, SubstrateState, SubstrateStats, cluster_key

from ..errors import Unknown
from .problems import Problem
from .reading import LIMIT, Id, Limit, Reading, reply

router = APIRouter(prefix="/substrates", tags=["substrates"])

After = Annotated[
    str | None, Query(max_length=400, pattern=r"^[^\x00]*$", description="clusters whose name sorts after this")
]


@router.get("", summary="List what each substrate was worth")
def list_substrates(views: Reading, limit: Limit = LIMIT, after: After = None) -> Response:
    """`{"clusters": [...], "next": name}` in order of name bytes: pass `next` as `after` for the following page.

    A cluster's name is `environment/cluster`. Of each substrate `gain` and `cost` are sums over its `pulls`, `value`
    and `mean_cost` their means, in micro-units; null is unknown. `epsilon` is the chance of exploring next.
    """
    start = None if after is None else after.encode()
    found = [state for key, state in views.find(SUBSTRATES).items() if start is None or key.encode() > start]
    last = found[limit - 1] if len(found) > limit else None
    page = [_plain_state(state) for state in found[:limit]]
    return reply({"clusters": page, "next": None if last is None else cluster_key(last.environment, last.cluster)})


@router.get(
    "/{cluster:path}",
    summary="The substrates of one cluster, with their history",
    responses={404: {"model": Problem, "description": "Nothing was chosen in such a cluster yet."}},
)
def one_cluster(views: Reading, cluster: Id) -> Response:
    """`{"cluster": ..., "history": [{"since": position, "state": ...}]}`, oldest first."""
    state = views.get(SUBSTRATES, cluster)
    if state is None:
        raise Unknown(what="cluster", actual=cluster, way_out="List them with GET /v1/substrates.")
    changes = views.history(SUBSTRATES, cluster)
    history = [
        {"since": each.since, "state": None if each.state is None else _plain_state(each.state)} for each in changes
    ]
    return reply({"cluster": _plain_state(state), "history": history})


def _plain_state(state: SubstrateState) -> dict[str, object]:
    return {
        "environment": state.environment,
        "cluster": state.cluster,
        "pulls": state.pulls,
        "epsilon": state.epsilon,
        "start": state.start,
        "halved_after": state.halved_after,
        "substrates": [_plain_substrate(each) for each in state.substrates],
    }


def _plain_substrate(standing: SubstrateStats) -> dict[str, object]:
    found = state_json(standing)
    known = found if isinstance(found, dict) else {}
    return {**known, "value": standing.value, "mean_cost": standing.mean_cost}
