"""The journal of a delegation loop: its events are appended to its stream and folded at once. Thread-safe."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from eventlog.blobs import Blob, BlobStore
from eventlog.events import AnyEvent, BudgetAmounts, BudgetReserved, BudgetSettled, LoopLimits
from eventlog.store import START, Append, Committed, EventStore, Position, Recorded, Rejected, Repeated
from projections.delegation.budgets import LOOP_BUDGETS, Amounts, LoopBudget, loop_stream, settle_amounts
from projections.delegation.loop_state import LoopState
from projections.delegation.loops import LOOPS
from projections.delegation.skills import LOOP_SKILLS, SkillCatalogue
from projections.delegation.stalls import LOOP_STALLS, StallState
from projections.delegation.tools import LOOP_TOOLS, ToolRegistry
from projections.engine.projection import AnyFold, row_of

from ...delegation.budget import OverBudget, over_limits, wall_spent
from .errors import LoopElsewhere

ACTOR: Final = "delegation"
TEXT: Final = "text/plain; charset=utf-8"
JSON: Final = "application/json"
CLOCK: Final = "clock"
"""Name under which time is charged for which no work was settled."""

_FOLDS: Final[tuple[AnyFold, ...]] = (LOOPS, LOOP_BUDGETS, LOOP_STALLS, LOOP_SKILLS, LOOP_TOOLS)


@dataclass
class LoopStates:
    """The states of one loop's folds, event by event."""

    loop: str
    found: dict[str, Any] = field(default_factory=lambda: {fold.name: fold.initial for fold in _FOLDS})

    def fold(self, recorded: Recorded) -> None:
        """Fold one event of the loop's stream."""
        for fold in _FOLDS:
            paths = fold.reads.get(recorded.event.type)
            if paths is not None and fold.key(row := row_of(recorded, paths)) == self.loop:
                self.found[fold.name] = fold.fold(self.found[fold.name], row)

    @property
    def state(self) -> LoopState:
        """The loop."""
        found: LoopState = self.found[LOOPS.name]
        return found

    @property
    def budget(self) -> LoopBudget:
        """Its budget."""
        found: LoopBudget = self.found[LOOP_BUDGETS.name]
        return found

    @property
    def stall(self) -> StallState:
        """Its stall detector's memory."""
        found: StallState = self.found[LOOP_STALLS.name]
        return found

    @property
    def skills(self) -> SkillCatalogue:
        """Its catalogue of skills."""
        found: SkillCatalogue = self.found[LOOP_SKILLS.name]
        return found

    @property
    def tools(self) -> ToolRegistry:
        """Its registry of tools."""
        found: ToolRegistry = self.found[LOOP_TOOLS.name]
        return found


class LoopJournal(LoopStates):
    """One loop's stream, with the states of its folds at its end. `stopwatch` returns monotonic microseconds."""

    def __init__(self, store: EventStore, blobs: BlobStore, loop: str, stopwatch: Callable[[], int]) -> None:
        super().__init__(loop)
        self.store, self.blobs, self.stopwatch = store, blobs, stopwatch
        self.lock = threading.RLock()
        self._position: Position = START
        self._version = 0
        self._charged = stopwatch()
        self.catch_up()

    def catch_up(self) -> None:
        """Fold what the stream holds beyond what was folded."""
        with self.lock:
            for recorded in self.store.read(after=self._position, stream=loop_stream(self.loop)):
                self._position, self._version = recorded.position, recorded.version
                self.fold(recorded)

    def append(self, *events: AnyEvent) -> None:
        """Append events together, and fold them. Raises LoopElsewhere if another process appended meanwhile."""
        with self.lock:
            outcome = self.store.append([self._request(events)])[0]
            if not isinstance(outcome, Committed | Repeated):
                raise LoopElsewhere(loop=self.loop, actual=f"expected version {self._version}")
            self.catch_up()

    def append_with(self, *events: AnyEvent, other: LoopJournal, others: Sequence[AnyEvent]) -> None:
        """Append to this loop and to another one, all or nothing. Raises LoopElsewhere."""
        with self.lock, other.lock:
            requests = [self._request(events), other._request(tuple(others))]
            if isinstance(self.store.append_together(requests), Rejected):
                raise LoopElsewhere(loop=self.loop, actual=f"expected version {self._version}")
            self.catch_up()
            other.catch_up()

    def _request(self, events: tuple[AnyEvent, ...]) -> Append:
        return Append(loop_stream(self.loop), events, ACTOR, expect=self._version)

    def reserve(
        self, limits: LoopLimits, reservation: str, amounts: Amounts, child: str | None = None
    ) -> OverBudget | None:
        """Reserve part of the budget, or change a reservation. Returns the limit that refuses it, else None."""
        with self.lock:
            others = settle_amounts(self.budget, reservation, Amounts(wall=self.uncharged_microseconds()))
            refused = over_limits(others, limits, amounts) or wall_spent(others, limits)
            if refused is None:
                wanted = amounts_event(amounts)
                self.append(BudgetReserved(loop=self.loop, reservation=reservation, amounts=wanted, child=child))
            return refused

    def settlement(self, reservation: str, actual: Amounts, *, is_lost: bool = False) -> BudgetSettled:
        """The event that settles a reservation, with the time since the last one. Append it at once."""
        with self.lock:
            now = self.stopwatch()
            wall, self._charged = max(0, now - self._charged), now
            amounts = amounts_event(actual).model_copy(update={"wall": wall})
            return BudgetSettled(loop=self.loop, reservation=reservation, amounts=amounts, is_lost=is_lost)

    def start_clock(self) -> None:
        """Charge time from here on: what passed while nothing ran is free."""
        with self.lock:
            self._charged = self.stopwatch()

    def charge_time(self) -> None:
        """Append the time since the last charge, so that a kill loses none of it. Raises LoopElsewhere."""
        with self.lock:
            self.append(self.settlement(CLOCK, Amounts()))

    def uncharged_microseconds(self) -> int:
        """Microseconds since the last charge."""
        return max(0, self.stopwatch() - self._charged)

    def put_text(self, text: str) -> str:
        """Store a text and return its address."""
        blob = Blob(TEXT, text.encode(errors="replace"))
        self.blobs.put([blob])
        return blob.digest

    def put_bytes(self, content: bytes) -> str:
        """Store JSON and return its address."""
        blob = Blob(JSON, content)
        self.blobs.put([blob])
        return blob.digest

    def text_at(self, address: str) -> str:
        """The text at an address. Raises BlobErased, BlobMissing."""
        return self.blobs.get(address).body.decode()

    def record_at(self, address: str) -> dict[str, Any]:
        """The JSON object at an address. Raises BlobErased, BlobMissing."""
        found = json.loads(self.text_at(address))
        return found if isinstance(found, dict) else {"value": found}


def amounts_event(amounts: Amounts) -> BudgetAmounts:
    """Amounts as a field of an event."""
    return BudgetAmounts(
        loops=amounts.loops,
        workers=amounts.workers,
        tokens=amounts.tokens,
        tool_calls=amounts.tool_calls,
        wall=amounts.wall,
    )


def plain_json(value: Mapping[str, Any]) -> bytes:
    """An object as canonical bytes."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=str).encode(errors="replace")
