"""Substrates: what each way to learn was worth in each cluster, and how that changed."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Response

from ..queries import substrates as queries
from .as_of import LIMIT, AfterPosition, Id, Limit, Reading, reply, sorted_after
from .problems import problem_of
from .schemas import answer_of

router = APIRouter(prefix="/substrates", tags=["substrates"])

After = Annotated[str | None, sorted_after(400, "clusters whose name sorts after this")]


@router.get("", summary="List what each substrate was worth", responses={200: answer_of(queries.SubstratePage)})
def list_substrates(views: Reading, limit: Limit = LIMIT, after: After = None) -> Response:
    """`{"clusters": [...], "next": name}` in order of name bytes: pass `next` as `after` for the following page.

    A cluster's name is `environment/cluster`. Of each substrate `gain` and `cost` are sums over its `pulls`, `value`
    and `mean_cost` their means, in micro-units; null is unknown. `epsilon` is the chance of exploring next.
    """
    return reply(queries.list_clusters(views, after, limit))


@router.get(
    "/{cluster:path}",
    summary="The substrates of one cluster, with their history",
    responses={200: answer_of(queries.SubstrateAnswer), 404: problem_of("Nothing was chosen in such a cluster yet.")},
)
def one_cluster(views: Reading, cluster: Id, limit: Limit = LIMIT, after: AfterPosition = 0) -> Response:
    """`{"cluster": ..., "history": [{"since": position, "state": ...}], "next": position}`, oldest first."""
    return reply(queries.show_cluster(views, cluster, after=after, limit=limit))
