"""Group commit: concurrent appends are merged into one transaction, each with its own outcome.

The first caller becomes the leader: it commits the queued requests, delivers each outcome, and hands over leadership
when its own requests are done. A group of requests that are written together or not at all is not merged with others.
The queue is bounded: beyond the bound a caller is refused before anything is sent.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Protocol

from sqlalchemy.exc import DataError, IntegrityError, ProgrammingError, SQLAlchemyError

from .append_rule import judge_group
from .codec import EncodedAppend
from .errors import AppendInterrupted, FlywheelError, LogBusy
from .store import Committed, Outcome, Rejected, Repeated

BAD_DATA = (DataError, IntegrityError, ProgrammingError)
"""Errors of a database that refuses data of an append: nothing of its transaction was written."""

MOST_WAITING = 20_000
"""Default bound of the queue, in events."""

_MOST_TOGETHER = 2_000
_MOST_BYTES = 8_000_000


class Commit(Protocol):
    """Writes one batch in one transaction; with `together`, nothing if one of its outcomes is a refusal."""

    def __call__(self, requests: Sequence[EncodedAppend], *, together: bool) -> Sequence[Outcome]:
        """One outcome for each request, in order."""
        ...


@dataclass(frozen=True, slots=True)
class Counts:
    """Append requests since the process started: `received = committed + repeated + rejected + waiting`.

    `events` counts the events of committed requests, `commits` the transactions they took.
    """

    received: int = 0
    committed: int = 0
    repeated: int = 0
    rejected: int = 0
    events: int = 0
    commits: int = 0

    @property
    def open_requests(self) -> int:
        """Requests that have no outcome yet."""
        return self.received - self.committed - self.repeated - self.rejected


@dataclass(slots=True, eq=False)
class _Ticket:
    """One caller's requests, and their outcomes or error."""

    requests: Sequence[EncodedAppend]
    events: int
    size: int
    together: bool
    turn: threading.Event = field(default_factory=threading.Event)
    outcomes: Sequence[Outcome] | None = None
    error: Exception | None = None

    @property
    def is_done(self) -> bool:
        return self.outcomes is not None or self.error is not None

    @property
    def is_rejected(self) -> bool:
        return self.together and isinstance(judge_group(self.outcomes or ()), Rejected)


class GroupCommit:
    """Merges the appends of many threads; `commit` writes one batch or raises."""

    def __init__(self, commit: Commit, most_waiting: int = MOST_WAITING) -> None:
        self._commit = commit
        self._most = most_waiting
        self._lock = threading.Lock()
        self._queue: deque[_Ticket] = deque()
        self._waiting = 0
        self._is_led = False
        self._counts = Counts()

    @property
    def counts(self) -> Counts:
        """Requests received, by outcome."""
        return self._counts

    def append(self, requests: Sequence[EncodedAppend], *, together: bool = False) -> Sequence[Outcome]:
        """Wait until the requests are committed; return their outcomes. Raises LogBusy and the errors of `commit`.

        With `together`, nothing was written if one of the outcomes is a refusal.
        """
        ticket = _Ticket(
            requests,
            sum(len(request.events) for request in requests),
            sum(len(event.payload) for request in requests for event in request.events),
            together and len(requests) > 1,
        )
        if not self._join(ticket):
            self._wait(ticket)
        if not ticket.is_done:
            self._lead(ticket)
        if ticket.error is not None:
            raise ticket.error
        return ticket.outcomes or ()

    def _wait(self, ticket: _Ticket) -> None:
        """Wait for the outcome or for leadership. If interrupted, leave the queue or hand over leadership."""
        is_over = False
        try:
            ticket.turn.wait()
            is_over = True
        finally:
            if not is_over:
                self._leave(ticket)

    def _leave(self, ticket: _Ticket) -> None:
        with self._lock:
            if ticket in self._queue:
                self._queue.remove(ticket)
                self._waiting -= ticket.events
                self._add(rejected=len(ticket.requests))
            has_lead = ticket.turn.is_set() and not ticket.is_done
        if has_lead:
            self._pass_on()

    def _pass_on(self) -> None:
        with self._lock:
            if self._queue:
                self._queue[0].turn.set()
            else:
                self._is_led = False

    def refuse(self) -> None:
        """Count a request that was refused before it reached the queue."""
        with self._lock:
            self._add(received=1, rejected=1)

    def _join(self, ticket: _Ticket) -> bool:
        """Enqueue the ticket; True if the caller is now the leader."""
        with self._lock:
            waiting, count = self._waiting, len(ticket.requests)
            is_full = waiting > 0 and waiting + ticket.events > self._most
            self._add(received=count, rejected=count if is_full else 0)
            if is_full:
                raise LogBusy(actual=waiting, expected=self._most)
            self._waiting += ticket.events
            self._queue.append(ticket)
            leads, self._is_led = not self._is_led, True
            return leads

    def _lead(self, ticket: _Ticket) -> None:
        """Commit batches until this ticket is done, then hand over leadership, also after an exception."""
        try:
            while not ticket.is_done:
                self._settle(self._batch())
        finally:
            self._pass_on()

    def _batch(self) -> list[_Ticket]:
        """The next tickets of the queue that one transaction takes. A group has a transaction of its own."""
        batch: list[_Ticket] = []
        events = size = 0
        with self._lock:
            while self._queue and (not batch or (events < _MOST_TOGETHER and size < _MOST_BYTES)):
                if batch and (batch[-1].together or self._queue[0].together):
                    break
                batch.append(self._queue.popleft())
                events += batch[-1].events
                size += batch[-1].size
        return batch

    def _settle(self, batch: Sequence[_Ticket]) -> None:
        """Give every ticket of a batch its outcomes or its error. A ticket with bad data does not fail the others."""
        try:
            self._try(batch)
            for ticket in batch:
                if len(batch) > 1 and not ticket.is_done:
                    self._try([ticket])
        finally:
            for ticket in batch:
                if not ticket.is_done:
                    ticket.error = AppendInterrupted(actual=len(ticket.requests))
                self._count(ticket)
                ticket.turn.set()

    def _try(self, batch: Sequence[_Ticket]) -> None:
        """Commit the tickets together. If the database rejects data of one of several, all stay undone."""
        try:
            requests = [request for ticket in batch for request in ticket.requests]
            outcomes = iter(self._commit(requests, together=batch[0].together))
        except (FlywheelError, SQLAlchemyError) as error:
            if len(batch) == 1 or not isinstance(error, BAD_DATA):
                for ticket in batch:
                    ticket.error = error
            return
        for ticket in batch:
            ticket.outcomes = tuple(islice(outcomes, len(ticket.requests)))
        with self._lock:
            self._add(commits=1)

    def _count(self, ticket: _Ticket) -> None:
        outcomes = () if ticket.is_rejected else ticket.outcomes or ()
        committed = sum(isinstance(outcome, Committed) for outcome in outcomes)
        repeated = sum(isinstance(outcome, Repeated) for outcome in outcomes)
        events = sum(
            len(request.events)
            for request, outcome in zip(ticket.requests, outcomes, strict=False)
            if isinstance(outcome, Committed)
        )
        with self._lock:
            self._waiting -= ticket.events
            rejected = len(ticket.requests) - committed - repeated
            self._add(committed=committed, repeated=repeated, rejected=rejected, events=events)

    def _add(self, **more: int) -> None:
        now = self._counts
        self._counts = replace(now, **{name: getattr(now, name) + amount for name, amount in more.items()})
