"""History under another rule or another reward: events mapped in front of the same folds. Pure, and read-only.

A map takes a recorded event to what would stand in its place, or to nothing. Positions, times and streams stay, so that
"as of" means the same on both sides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

import msgspec

from eventlog.events import PieceTried, PromotionRule, RewardGraded, RewriteLost, RewriteProposed, RewriteWon
from eventlog.store import START, EventStore, Position, Recorded

from .engine.projection import Change, Fold
from .engine.views import ReplayedViews, Views

S = TypeVar("S", bound=msgspec.Struct)

Trial = PieceTried | RewriteWon | RewriteLost

ViewsAt = Callable[[Position | None], Views]
"""Views at a position, None: the head."""

EventMap = Callable[[Recorded], Recorded | None]
"""What stands in the place of an event; None: nothing does. It keeps the event's type, or its place in a stream."""

_TRIALS = frozenset({"RewriteWon", "RewriteLost"})

OF_RULES = frozenset({"RewriteProposed"})
OF_REWARDS = frozenset({"RewardGraded", "PieceTried", *_TRIALS})
"""What the two maps below touch."""


@dataclass(frozen=True, slots=True)
class Mapped:
    """The reading side of a store, seen through a map."""

    store: EventStore
    mapping: EventMap

    def head(self) -> Position:
        """The head of the store itself."""
        return self.store.head()

    def read(
        self,
        *,
        after: Position = START,
        upto: Position | None = None,
        stream: str | None = None,
        types: Sequence[str] | None = None,
    ) -> Iterator[Recorded]:
        """See EventStore.read; `types` are those that events have once they are mapped."""
        wanted = None if types is None else frozenset(types)
        # A trial that was won may be one that was lost, and the other way about: one is read for the sake of the other.
        asked = None if wanted is None else sorted(wanted | (_TRIALS if wanted & _TRIALS else frozenset()))
        for recorded in self.store.read(after=after, upto=upto, stream=stream, types=asked):
            found = self.mapping(recorded)
            if found is not None and (wanted is None or found.event.type in wanted):
                yield found


def same(recorded: Recorded) -> Recorded:
    """The map that changes nothing."""
    return recorded


@dataclass(frozen=True, slots=True)
class OtherViews:
    """Views of a log seen through a map. What reads no event that the map touches is read from the truth."""

    truth: Views
    mapped: Views
    touched: frozenset[str]

    @property
    def upto(self) -> Position:
        """See Views.upto."""
        return self.truth.upto

    def get(self, fold: Fold[S], key: str) -> S | None:
        """See Views.get."""
        return self._of(fold).get(fold, key)

    def find(self, fold: Fold[S], prefix: str = "") -> dict[str, S]:
        """See Views.find."""
        return self._of(fold).find(fold, prefix)

    def history(self, fold: Fold[S], key: str) -> tuple[Change[S], ...]:
        """See Views.history."""
        return self._of(fold).history(fold, key)

    def _of(self, fold: Fold[Any]) -> Views:
        return self.mapped if self.touched & fold.reads.keys() else self.truth


def views_through(store: EventStore, truth: ViewsAt, mapping: EventMap, touched: frozenset[str]) -> ViewsAt:
    """Views at a position of a log seen through a map that touches events of these types alone."""
    mapped = cast("EventStore", Mapped(store, mapping))  # views read, and reading is all that a map has

    def at(upto: Position | None) -> OtherViews:
        views = truth(upto)
        return OtherViews(views, ReplayedViews(mapped, views.upto), touched)

    return at


def under_rule(rule: PromotionRule) -> EventMap:
    """The map that puts a rule on every proposal."""

    def put_rule(recorded: Recorded) -> Recorded:
        event = recorded.event
        if isinstance(event, RewriteProposed) and event.rule != rule:
            return replace(recorded, event=event.model_copy(update={"rule": rule}))
        return recorded

    return put_rule


def under_rewards(rewards: Mapping[Position, RewardGraded], passed: Mapping[str, bool]) -> EventMap:
    """The map that puts other rewards at their positions, and makes trials of what their runs then came to.

    `passed` says of each run whose outcome is another one what it is.
    """

    def put_rewards(recorded: Recorded) -> Recorded:
        event = recorded.event
        if isinstance(event, RewardGraded):
            return replace(recorded, event=rewards.get(recorded.position, event))
        if isinstance(event, Trial):
            return replace(recorded, event=_with_outcome(event, passed))
        return recorded

    return put_rewards


def _with_outcome(event: Trial, passed: Mapping[str, bool]) -> Trial:
    """A trial with what its runs then came to."""
    flipped = [passed[run] for run in event.control_runs if run in passed]
    successes = event.control_successes + sum(1 if is_passed else -1 for is_passed in flipped)
    if isinstance(event, PieceTried):
        won = passed.get(event.run, event.won)
        return event.model_copy(update={"control_successes": successes, "won": won})
    kind = RewriteWon if passed.get(event.run, isinstance(event, RewriteWon)) else RewriteLost
    return kind(rewrite=event.rewrite, run=event.run, control_runs=event.control_runs, control_successes=successes)
