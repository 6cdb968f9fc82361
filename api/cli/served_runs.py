"""Runs of a source: a page of them, one with all its events, and why one is left out of learning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final
from unicodedata import category

from ..errors import Unknown
from ..queries.events import EventPage, list_events
from ..queries.runs import MarkedRun, RunAnswer, RunFilter, RunPage, find_runs, row_of_run, show_run
from ..queries.taint import (
    ErasureList,
    ErasureRow,
    WithdrawalList,
    WithdrawalRow,
    list_erasures,
    list_withdrawals,
)
from .sources import LogSource, Source, quote_name

if TYPE_CHECKING:
    from eventlog.events import Event
    from projections.engine.views import PostgresViews

    from ..house import House


MOST_PRINTED: Final = 2_000
"""Most characters of what an agent printed that are shown, the last ones."""


def page_runs(source: Source, wanted: RunFilter, after: str | None, limit: int) -> tuple[list[Any], Any]:
    """A page of the runs that are wanted, and the name to continue after."""

    def read_log(_house: House, views: PostgresViews) -> RunPage:
        page, following = find_runs(views, wanted, after=after, limit=limit)
        return RunPage(runs=tuple(map(row_of_run, page)), next=following)

    params = {"prefix": wanted.prefix, "status": wanted.status, "passed": "false" if wanted.is_failed else None}
    return source.pages(RunPage, "runs", "/v1/runs", read_log, after, limit, **params)


def refuse_unknown_sweep(source: Source, name: str) -> None:
    """Raise Unknown unless a sweep or an evaluation of this name exists."""
    stream = f"sweep/{name}"
    planned = source.read(
        EventPage,
        "/v1/events",
        lambda house, views: list_events(house.store, views.upto, limit=1, stream=stream),
        stream=stream,
        limit=1,
    )
    if planned.events:
        return
    try:
        from ..queries.verdicts import VerdictAnswer, show_verdict

        path = f"/v1/verdicts/{quote_name(name)}"
        source.read(VerdictAnswer, path, lambda _house, views: show_verdict(views, name))
    except Unknown:
        way_out = "`flywheel rollout status` and `flywheel gate list` name them."
        raise Unknown(what="sweep or evaluation", actual=name, way_out=way_out) from None


def whole_run(source: Source, run: str) -> tuple[RunAnswer, list[Event]]:
    """A run and all its events, which a server gives in pages."""
    path = f"/v1/runs/{quote_name(run)}"
    events: list[Event] = []
    after: int | None = None
    while True:
        found = source.read(
            RunAnswer, path, lambda house, views: show_run(house.store, views, run), after=after, raw=False
        )
        events += [logged.event for logged in found.events]
        after = found.next
        if after is None:
            return found, events


def last_printed(source: Source, events: Sequence[Event]) -> str:
    """The last that an agent of one's own printed, or the error that ended it, without signs that steer a terminal.

    Empty if the run is of another executor, printed nothing or was erased; why it cannot be read if it is damaged.
    """
    from eventlog.errors import BlobErased, FlywheelError
    from eventlog.events import RunStarted, StepTaken
    from projections.runs import is_agent

    is_own = any(isinstance(event, RunStarted) and is_agent(event.executor) for event in events)
    last = next((event for event in reversed(events) if isinstance(event, StepTaken)), None)
    if not is_own or last is None or last.observation is None:
        return ""
    try:
        if isinstance(source, LogSource):
            body = source.house.blobs.get(last.observation).body
        else:
            body = source.fetch(f"/v1/blobs/{last.observation}", {}, {"as_of": None}).content
    except BlobErased:
        return ""
    except FlywheelError as problem:
        return f"it cannot be read: {problem}"
    text = body.decode("utf-8", "replace")[-MOST_PRINTED:]
    return "".join(sign for sign in text if sign in "\n\t" or not category(sign).startswith("C")).strip()


def reasons_left_out(source: Source, run: MarkedRun) -> dict[str, str | None]:
    """Why a run was withdrawn, and its subject erased, each with the position; None where it was not."""
    facts: dict[str, str | None] = {"withdrawn": None, "erased": None}
    if run.withdrawn is not None:
        rows, _ = source.pages(
            WithdrawalList, "withdrawals", "/v1/taint/withdrawals", lambda _, views: list_withdrawals(views), None, None
        )
        facts["withdrawn"] = _reason_at(run.withdrawn, rows)
    if run.erased is not None:
        rows, _ = source.pages(
            ErasureList, "erasures", "/v1/taint/erasures", lambda _, views: list_erasures(views), None, None
        )
        facts["erased"] = _reason_at(run.erased, rows)
    return facts


def _reason_at(since: int, rows: Sequence[WithdrawalRow | ErasureRow]) -> str:
    return next(f"since position {since}: {each.reason}" for each in rows if each.since == since)
