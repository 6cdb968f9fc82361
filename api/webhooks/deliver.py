"""Delivery: each webhook is told of one event after the other, until it takes each or the last attempt for it failed.

What was told stands in the log, so a restart loses nothing. A message that was sent but whose event was not appended
is sent again, with the same id.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from threading import Event

import anyio
import httpx2
from sqlalchemy.exc import SQLAlchemyError

from agents.tls import tls_context
from eventlog.errors import FlywheelError
from eventlog.events import AttemptOutcome, WebhookAttempted
from eventlog.store import Append, EventStore, Position, Recorded
from projections.outside.webhooks import WEBHOOKS, WebhookState

from ..house import House
from ..locks import only_deliverer
from ..settings import read_secret
from .addresses import find_target, read_networks
from .errors import WebhookFailed
from .messages import TOPICS, compose_message, secret_bytes, sign_message
from .register import webhook_stream

ACTOR = "webhooks"
MOST_ATTEMPTS = 16
"""Attempts for one message: some 29 hours, so that a receiver may be down for a day."""

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 5, 6 * 3600
_TIMEOUT_S = 15.0
_ROUND_S, _STANDBY_S = 2.0, 10.0
_IDLE_ROUNDS = 15
_STIRRING = (*WEBHOOKS.types, *TOPICS.values())
_AT_ONCE = 8
_MICRO = 1_000_000


@dataclass(slots=True)
class Cursors:
    """Per webhook, the position up to which nothing is left to tell; found again after a restart.

    `settled` is the position up to which no webhook has anything left, `idle` the number of rounds since the last fold.
    """

    clear: dict[str, int] = field(default_factory=dict)
    settled: Position | None = None
    idle: int = 0


@dataclass(frozen=True, slots=True)
class DueDelivery:
    """An event that a webhook is to be told of, which attempt it is, and when it is due (microseconds since 1970)."""

    state: WebhookState
    recorded: Recorded
    attempt: int
    due: int


def pause_after(attempt: int) -> int:
    """Seconds to wait after an attempt that failed."""
    return min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S << (attempt - 1))


def next_delivery(store: EventStore, state: WebhookState, after: int, upto: Position) -> DueDelivery | None:
    """The next message of a webhook among the events after a position, or None."""
    types = [TOPICS[topic] for topic in state.topics]
    start = Position(max(state.told, after))
    recorded = next(iter(store.read(after=start, upto=upto, types=types)), None)
    if recorded is None:
        return None
    if state.position != recorded.position:
        return DueDelivery(state, recorded, 1, 0)
    due = state.attempted + pause_after(state.attempts) * _MICRO
    return DueDelivery(state, recorded, state.attempts + 1, due)


def pending_deliveries(
    store: EventStore, states: Mapping[str, WebhookState], cursors: Cursors, upto: Position
) -> Iterator[DueDelivery]:
    """The next message of each webhook."""
    for name, state in states.items():
        found = next_delivery(store, state, cursors.clear.get(name, 0), upto)
        if found is None:
            cursors.clear[name] = int(upto)
        else:
            yield found


def deliver_round(house: House, cursors: Cursors, now: datetime) -> int:
    """Attempt everything that is due, and record each attempt. Returns how many there were.

    While the log gets no event that a webhook could be told of, and no webhook changes, only some rounds fold: so that
    projections are not far behind where nobody reads.
    """
    is_idle = cursors.settled is not None and not house.store.may_hold(_STIRRING, after=cursors.settled)
    if is_idle and cursors.idle < _IDLE_ROUNDS:
        cursors.idle += 1
        return 0
    cursors.idle = 0
    views = house.views()
    states = views.find(WEBHOOKS)
    moment = int(now.timestamp() * _MICRO)
    pending = list(pending_deliveries(house.store, states, cursors, views.upto))
    cursors.settled = None if pending else views.upto
    due = [each for each in pending if each.due <= moment]
    if not due:
        return 0
    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        for delivery, (outcome, detail) in zip(due, pool.map(partial(attempt_delivery, house), due), strict=True):
            _record(house, delivery, outcome, detail)
    return len(due)


def attempt_delivery(house: House, delivery: DueDelivery) -> tuple[AttemptOutcome, str]:
    """Send a message once. Returns what came of it, and a sentence without anything that the receiver wrote."""
    try:
        status = anyio.run(_send, house, delivery)
    except (FlywheelError, httpx2.HTTPError, httpx2.InvalidURL, OSError, TimeoutError) as error:
        detail = str(error) if isinstance(error, FlywheelError) else f"not reached: {type(error).__name__}"
    else:
        detail = f"answered {status}"
        if 200 <= status < 300:  # noqa: PLR2004 the successful statuses
            return "delivered", detail
    return ("failed" if delivery.attempt < MOST_ATTEMPTS else "dropped"), detail[:300]


async def _send(house: House, delivery: DueDelivery) -> int:
    state, settings = delivery.state, house.settings
    value = read_secret(state.secret)
    key = secret_bytes(state.secret, None if value is None else value.get_secret_value())
    message = compose_message(settings.project, state.webhook, delivery.recorded)
    with anyio.move_on_after(_TIMEOUT_S):
        target = await find_target(state.url, read_networks(settings.webhook_networks))
        headers = {"Host": target.host_header, **sign_message(message, key, datetime.now(UTC))}
        secure = {"sni_hostname": target.host} if target.is_tls else {}
        async with (
            httpx2.AsyncClient(trust_env=False, verify=tls_context(), timeout=_TIMEOUT_S) as client,
            client.stream("POST", target.url, content=message.body, headers=headers, extensions=secure) as answer,
        ):
            return answer.status_code
    raise WebhookFailed(actual=f"no answer in {_TIMEOUT_S:g} seconds")


def _record(house: House, delivery: DueDelivery, outcome: AttemptOutcome, detail: str) -> None:
    name, position = delivery.state.webhook, delivery.recorded.position
    event = WebhookAttempted(
        webhook=name, position=position, attempt=delivery.attempt, outcome=outcome, detail=detail or "no detail"
    )
    key = f"webhook:{name}:{delivery.state.since}:{position}:{delivery.attempt}"
    house.store.append([Append(webhook_stream(name), (event,), ACTOR, key=key, cause=position)])


def deliver_until(house: House, stop: Event) -> None:
    """Deliver until `stop` is set. One process of a project delivers at a time; another takes over once it ends."""
    cursors = Cursors()
    while not stop.is_set():
        try:
            with only_deliverer(house) as own:
                while own is not None and not stop.is_set():
                    deliver_round(own, cursors, datetime.now(UTC))
                    stop.wait(_ROUND_S)
        except (FlywheelError, SQLAlchemyError):
            cursors = Cursors()  # the database is away, or a projection is parked: both are told elsewhere
        stop.wait(_STANDBY_S)
