"""Webhooks: the address and topics of each, the last position sent, and the last attempt."""

from __future__ import annotations

from msgspec.structs import replace

from ..engine.projection import EventRow, Fold, FoldState


class WebhookState(FoldState, frozen=True, kw_only=True):
    """A webhook. It was told of everything up to `told`; `secret` names the variable of its secret.

    `position`, `attempts`, `attempted` (microseconds since 1970), `outcome` and `detail` are of the last attempt.
    """

    webhook: str = ""
    url: str = ""
    secret: str = ""
    topics: tuple[str, ...] = ()
    since: int = 0
    told: int = 0
    position: int = 0
    attempts: int = 0
    attempted: int = 0
    outcome: str = ""
    detail: str = ""


def _fold(state: WebhookState, row: EventRow) -> WebhookState:
    if row.type == "WebhookAdded":
        return WebhookState(
            webhook=row.text("webhook"),
            url=row.text("url"),
            secret=row.text("secret"),
            topics=tuple(row.records("topics")),
            since=row.position,
            told=row.position,
        )
    if row.type == "WebhookRemoved" or not state.webhook:
        return WebhookState()
    position, outcome = row.number("position"), row.text("outcome")
    return replace(
        state,
        told=state.told if outcome == "failed" else max(state.told, position),
        position=position,
        attempts=row.number("attempt"),
        attempted=row.moment,
        outcome=outcome,
        detail=row.text("detail"),
    )


WEBHOOKS = Fold(
    name="webhooks",
    version=1,
    reads={
        "WebhookAdded": ("webhook", "url", "secret", "topics"),
        "WebhookRemoved": ("webhook",),
        "WebhookAttempted": ("webhook", "position", "attempt", "outcome", "detail"),
    },
    initial=WebhookState(),
    key=lambda row: row.text("webhook"),
    fold=_fold,
)
