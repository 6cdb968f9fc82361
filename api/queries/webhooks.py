"""Webhooks: where each sends, and how its last attempt went."""

from __future__ import annotations

import msgspec

from projections.engine.views import Views
from projections.outside.webhooks import WEBHOOKS, WebhookState

from .paging import page_after


class WebhookList(msgspec.Struct, frozen=True, kw_only=True):
    """Webhooks in order of name; `next` is the name to continue after, null where no more follow."""

    webhooks: tuple[WebhookState, ...]
    next: str | None


def list_webhooks(views: Views, *, after: str | None = None, limit: int | None = None) -> WebhookList:
    """A page of the webhooks, in order of name."""
    page, following = page_after(views, WEBHOOKS, after, limit)
    return WebhookList(webhooks=tuple(page.values()), next=following)
