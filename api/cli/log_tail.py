"""The last events of a log, as lines for people and as JSON, from here or from a server."""

from __future__ import annotations

import time
from typing import Any, Final

import msgspec

from ..queries.encoding import encode_value
from ..queries.events import EventPage, LoggedEvent
from ..queries.health import HealthAnswer
from .output import emit_json, say
from .sources import ServerSource, open_server

_REOPENED_S: Final = 1.0


def plain_event(event: LoggedEvent) -> dict[str, Any]:
    """An event as it is printed in JSON."""
    row: dict[str, Any] = msgspec.to_builtins(event, enc_hook=encode_value)
    return row | {"at": event.at.isoformat()}


def print_event(event: LoggedEvent, plain: dict[str, Any], *, as_json: bool) -> None:
    """Print one event: as a line, or its `plain` form."""
    if as_json:
        emit_json(plain)
    else:
        say(f"{event.position:>8}  {event.at:%Y-%m-%d %H:%M:%S}  {event.type:<18} {event.stream}  ({event.actor})")


def tail_server(server: str, count: int, kind: str | None, *, follow: bool, as_json: bool) -> None:
    """Print the last events of a server's log, and with `follow` the new ones."""
    with open_server(server) as source:
        head = source.read(HealthAnswer, "/healthz").head
        start = max(0, head - count)
        found, _ = source.pages(EventPage, "events", "/v1/events", None, start, None, type=kind)
        if as_json and not follow:
            emit_json([plain_event(event) for event in found])
            return
        for event in found:
            print_event(event, plain_event(event), as_json=as_json)
        if follow:
            _follow(source, found[-1].position if found else head, kind, as_json=as_json)


def _follow(source: ServerSource, after: int, kind: str | None, *, as_json: bool) -> None:
    """Print what the server's stream gives, which ends every few minutes and is opened again."""
    while True:
        for event in source.follow({"after": after, "type": kind}):
            print_event(event, plain_event(event), as_json=as_json)
            after = event.position
        time.sleep(_REOPENED_S)
