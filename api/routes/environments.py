"""Environments: what the newest probe found, and since when each is admitted."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from projections.environments import ENVIRONMENTS

from .reading import LIMIT, Limit, Reading, reply

router = APIRouter(prefix="/environments", tags=["environments"])

After = Annotated[
    str | None, Query(max_length=200, pattern=r"^[^\x00]*$", description="environments whose name sorts after this")
]


@router.get("", summary="List environments")
def list_environments(views: Reading, limit: Limit = LIMIT, after: After = None) -> Response:
    """`{"environments": [...], "next": name}` in order of name bytes: pass `next` as `after` for the following page.

    `probes` are those of the newest report; `admitted_since` is null where the environment is not admitted.
    """
    start = None if after is None else after.encode()
    found = [state for key, state in views.find(ENVIRONMENTS).items() if start is None or key.encode() > start]
    return reply({"environments": found[:limit], "next": found[limit - 1].environment if len(found) > limit else None})
