"""Adding and removing webhooks, each as one event."""

from __future__ import annotations

from collections.abc import Sequence

from eventlog.events import WebhookAdded, WebhookRemoved, WebhookTopic
from eventlog.store import Append, EventStore
from projections.engine.views import Views
from projections.outside.webhooks import WEBHOOKS, WebhookState

from ..errors import Unknown
from .addresses import check_url
from .errors import TooManyWebhooks

MOST = 50
"""Webhooks of one project."""


def add_webhook(
    store: EventStore, views: Views, name: str, url: str, secret: str, topics: Sequence[WebhookTopic], actor: str
) -> None:
    """Tell an address of these topics from here on. Raises BadWebhookUrl, TooManyWebhooks."""
    check_url(url)
    known = views.find(WEBHOOKS)
    if name not in known and len(known) >= MOST:
        raise TooManyWebhooks(actual=len(known), expected=MOST)
    event = WebhookAdded(webhook=name, url=url, secret=secret, topics=tuple(dict.fromkeys(topics)))
    store.append([Append(webhook_stream(name), (event,), actor)])


def remove_webhook(store: EventStore, views: Views, name: str, reason: str, actor: str) -> None:
    """Tell a webhook nothing more. Raises Unknown."""
    find_webhook(views, name)
    store.append([Append(webhook_stream(name), (WebhookRemoved(webhook=name, reason=reason),), actor)])


def find_webhook(views: Views, name: str) -> WebhookState:
    """A webhook by its name. Raises Unknown."""
    state = views.get(WEBHOOKS, name)
    if state is None:
        raise Unknown(what="webhook", actual=name, way_out="List them with `flywheel webhook list`.")
    return state


def webhook_stream(name: str) -> str:
    """The stream of a webhook."""
    return f"webhook/{name}"
