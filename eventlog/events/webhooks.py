"""Webhooks: addresses that get verdicts and moves of the champion, and each attempt to send one."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from .environments import PageUrl
from .event import Count, Event, Name

WebhookName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]*$", max_length=60)]
"""The name of a webhook: a part of the ids of its deliveries."""

SecretVariable = Annotated[str, Field(pattern=r"^FLYWHEEL_WEBHOOK_[A-Z0-9_]+$", max_length=200)]
"""The environment variable that holds a webhook's secret. Only names of this form are read."""

WebhookTopic = Literal["verdict", "champion"]
"""Topics of which a webhook is told."""

AttemptOutcome = Literal["delivered", "failed", "dropped"]
"""`failed` is tried again; `dropped` was the last attempt."""


class WebhookAdded(Event):
    """From this position on, an address is told of these topics. `secret` names the variable of the signing secret.

    A later event of the same name replaces this one.
    """

    type: Literal["WebhookAdded"] = "WebhookAdded"
    webhook: WebhookName
    url: PageUrl
    secret: SecretVariable
    topics: Annotated[tuple[WebhookTopic, ...], Field(min_length=1)]


class WebhookRemoved(Event):
    """The webhook is told nothing from this position on, and why."""

    type: Literal["WebhookRemoved"] = "WebhookRemoved"
    webhook: WebhookName
    reason: Name


class WebhookAttempted(Event):
    """An attempt to tell a webhook of the event at a position; `attempt` counts from 1. `detail` says how it went."""

    type: Literal["WebhookAttempted"] = "WebhookAttempted"
    webhook: WebhookName
    position: Annotated[Count, Field(ge=1)]
    attempt: Annotated[int, Field(ge=1, le=1_000)]
    outcome: AttemptOutcome
    detail: Annotated[str, Field(max_length=300)]
