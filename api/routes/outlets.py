"""Who may come in and where messages go out: tokens and webhooks, without their secrets."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Response

from ..queries import access, webhooks
from .as_of import LIMIT, Limit, Reading, reply, sorted_after
from .problems import problem_of
from .schemas import answer_of

router = APIRouter(tags=["access"])

AfterToken = Annotated[str | None, sorted_after(200, "tokens whose name sorts after this")]
AfterWebhook = Annotated[str | None, sorted_after(200, "webhooks whose name sorts after this")]

_ROLE = problem_of("The token's role may not read this.")


@router.get("/tokens", summary="List tokens", responses={200: answer_of(access.TokenList), 403: _ROLE})
def list_tokens(views: Reading, limit: Limit = LIMIT, after: AfterToken = None) -> Response:
    """`{"tokens": [...], "next": name}`: names and roles. The tokens themselves are not stored."""
    return reply(access.list_tokens(views, after=after, limit=limit))


@router.get("/webhooks", summary="List webhooks", responses={200: answer_of(webhooks.WebhookList), 403: _ROLE})
def list_webhooks(views: Reading, limit: Limit = LIMIT, after: AfterWebhook = None) -> Response:
    """`{"webhooks": [...], "next": name}`: the address of each, the variable of its secret, and its last attempt."""
    return reply(webhooks.list_webhooks(views, after=after, limit=limit))
