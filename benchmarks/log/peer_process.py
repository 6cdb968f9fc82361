"""Runs the `eventsourcing` library on the same work, in a separate virtual environment, driven by lines of JSON.

It does not import flywheel. Events arrive serialised, as a topic and the bytes of a payload.
"""

# mypy: disable-error-code="import-not-found,misc,no-any-return,untyped-decorator"
# The library is in a separate environment, which mypy does not search.

from __future__ import annotations

import json
import sys
import time
from typing import Any
from uuid import NAMESPACE_URL, uuid4, uuid5

from eventsourcing.application import Application
from eventsourcing.dispatch import singledispatchmethod
from eventsourcing.domain import DomainEvent
from eventsourcing.persistence import StoredEvent, Tracking
from eventsourcing.postgres import PostgresTrackingRecorder
from eventsourcing.projection import Projection, ProjectionRunner
from psycopg.sql import SQL, Identifier

WAIT_S = 600


class Log(Application):
    """The application whose recorder stores the events."""


class View(PostgresTrackingRecorder):
    """A table with one row per key, updated together with the library's tracking of the last event."""

    def __init__(self, datastore: Any, **kwargs: Any) -> None:
        super().__init__(datastore, **kwargs)
        names = {"schema": Identifier(datastore.schema), "table": Identifier(f"{self.tracking_table_name}_rows")}
        self.sql_create_statements.append(
            SQL("CREATE TABLE IF NOT EXISTS {schema}.{table} (key text PRIMARY KEY, state jsonb)").format(**names)
        )
        self.upsert = SQL(
            "INSERT INTO {schema}.{table} AS t VALUES (%s, %s)"
            " ON CONFLICT (key) DO UPDATE SET state = t.state || EXCLUDED.state"
        ).format(**names)

    def put(self, key: str, state: str, tracking: Tracking) -> None:
        """Write a row and the tracking in one transaction."""
        with self.datastore.transaction(commit=True) as cursor:
            self._insert_tracking(cursor, tracking)
            cursor.execute(self.upsert, (key, state), prepare=True)


def event_class(name: str) -> type:
    """Class of an event type; its topic refers to this module."""
    if name not in globals():
        globals()[name] = type(name, (DomainEvent,), {"__module__": __name__, "__qualname__": name})
    return globals()[name]


def projection_class(name: str, types: list[str]) -> type:
    """A projection that stores the fields of the last event of each run."""

    class Kept(Projection[View]):
        topics = tuple(f"{__name__}:{kind}" for kind in types)

        @singledispatchmethod
        def process_event(self, domain_event: Any, tracking: Tracking) -> None:
            fields = {key: value for key, value in vars(domain_event).items() if not key.startswith("originator_")}
            self.view.put(str(fields.get("run")), json.dumps(fields), tracking)

    Kept.name = name
    return Kept


def stored(lines: list[list[str]], *, fresh: bool) -> list[StoredEvent]:
    """Stored events from (stream, type, payload), in order per stream; with `fresh`, for new streams."""
    salt = uuid4().hex if fresh else ""
    versions: dict[str, int] = {}
    events = []
    for stream, kind, payload in lines:
        event_class(kind)
        versions[stream] = versions.get(stream, 0) + 1
        origin = uuid5(NAMESPACE_URL, salt + stream)
        events.append(StoredEvent(origin, versions[stream], f"{__name__}:{kind}", payload.encode()))
    return events


def insert(app: Log, lines: list[list[str]], size: int) -> float:
    """Insert all events, `size` per commit; return the seconds."""
    events = stored(lines, fresh=True)
    batches = [events[start : start + size] for start in range(0, len(events), size)]
    began = time.perf_counter()
    for batch in batches:
        app.recorder.insert_events(batch)
    return time.perf_counter() - began


def project(app: Log, folds: dict[str, list[str]]) -> float:
    """Run the projections one after another over all inserted events; return the total seconds."""
    head = app.recorder.max_notification_id()
    total = 0.0
    for name, types in folds.items():
        last = app.recorder.select_notifications(
            start=None, limit=head, topics=[f"{__name__}:{kind}" for kind in types]
        )
        if not last:
            continue
        began = time.perf_counter()
        with ProjectionRunner(
            application_class=Log, projection_class=projection_class(name, types), view_class=View
        ) as runner:
            runner.wait(last[-1].id, timeout=WAIT_S)
            total += time.perf_counter() - began
    return total


def main() -> None:
    """Answer requests until standard input ends."""
    app = Log()
    for line in sys.stdin:
        asked = json.loads(line)
        if asked["ask"] == "insert":
            answer = insert(app, asked["events"], asked["size"])
        else:
            answer = project(app, asked["folds"])
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
