"""Environments: what the newest probe found, and since when each is admitted."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Response

from ..queries import environments as queries
from .as_of import LIMIT, Limit, Reading, reply, sorted_after
from .schemas import answer_of

router = APIRouter(prefix="/environments", tags=["environments"])

After = Annotated[str | None, sorted_after(200, "environments whose name sorts after this")]


@router.get("", summary="List environments", responses={200: answer_of(queries.EnvironmentPage)})
def list_environments(views: Reading, limit: Limit = LIMIT, after: After = None) -> Response:
    """`{"environments": [...], "next": name}` in order of name bytes: pass `next` as `after` for the following page.

    `probes` are those of the newest report; `admitted_since` is null where the environment is not admitted.
    """
    return reply(queries.list_environments(views, after=after, limit=limit))
