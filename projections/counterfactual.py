"""Counterfactual history under another rule or reward: the same folds over mapped events. Pure and read-only.

A map replaces a recorded event or drops it. Positions, times and streams stay the same, so that "as of" means the same
in both histories.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

import msgspec

from eventlog.events import PieceTried, PromotionRule, RewardGraded, RewriteLost, RewriteProposed, RewriteWon
from eventlog.store import START, EventStore, Position, Recorded

from .engine.paging import PAGE
from .engine.projection import Change, Fold
from .engine.views import ReplayedViews, Views

S = TypeVar("S", bound=msgspec.Struct)

Trial = PieceTried | RewriteWon | RewriteLost

ViewsAt = Callable[[Position | None], Views]
"""Returns views at a position (None: the head)."""

EventMap = Callable[[Recorded], Recorded | None]
"""Returns the replacement of an event, or None to drop it. A map keeps the event's type or its place in a stream."""

_TRIALS = frozenset({"RewriteWon", "RewriteLost"})

OF_RULES = frozenset({"RewriteProposed"})
OF_REWARDS = frozenset({"RewardGraded", "PieceTried", *_TRIALS})
"""The event types that under_rule() (OF_RULES) and under_rewards() (OF_REWARDS) change."""


@dataclass(frozen=True, slots=True)
class Mapped:
    """A read-only store whose events pass through a map."""

    store: EventStore
    mapping: EventMap

    def head(self) -> Position:
        """Head of the underlying store."""
        return self.store.head()

    def read(
        self,
        *,
        after: Position = START,
        upto: Position | None = None,
        stream: str | None = None,
        types: Sequence[str] | None = None,
        actor: str | None = None,
    ) -> Iterator[Recorded]:
        """See EventStore.read. `types` refers to the types of mapped events."""
        wanted = None if types is None else frozenset(types)
        # The map may turn RewriteWon into RewriteLost and back, so both are read if either is asked for.
        asked = None if wanted is None else sorted(wanted | (_TRIALS if wanted & _TRIALS else frozenset()))
        for recorded in self.store.read(after=after, upto=upto, stream=stream, types=asked, actor=actor):
            found = self.mapping(recorded)
            if found is not None and (wanted is None or found.event.type in wanted):
                yield found

    def disowned_positions(self, upto: Position | None = None) -> frozenset[Position]:
        """See EventStore.disowned_positions. A map changes no position."""
        return self.store.disowned_positions(upto)


def same(recorded: Recorded) -> Recorded:
    """The identity map."""
    return recorded


@dataclass(frozen=True, slots=True)
class OtherViews:
    """Views of a log through a map. A fold that reads no changed event type is read from the actual views (`truth`)."""

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

    def find_each(self, fold: Fold[S], prefixes: Collection[str]) -> dict[str, S]:
        """See Views.find_each."""
        return self._of(fold).find_each(fold, prefixes)

    def page(self, fold: Fold[S], after: str | None = None, limit: int = PAGE, prefix: str = "") -> dict[str, S]:
        """See Views.page."""
        return self._of(fold).page(fold, after, limit, prefix)

    def pick(self, fold: Fold[S], keys: Collection[str]) -> dict[str, S]:
        """See Views.pick."""
        return self._of(fold).pick(fold, keys)

    def history(self, fold: Fold[S], key: str, after: int = 0, limit: int | None = None) -> tuple[Change[S], ...]:
        """See Views.history."""
        return self._of(fold).history(fold, key, after, limit)

    def _of(self, fold: Fold[Any]) -> Views:
        return self.mapped if self.touched & fold.reads.keys() else self.truth


def views_through(store: EventStore, truth: ViewsAt, mapping: EventMap, touched: frozenset[str]) -> ViewsAt:
    """A function that returns views through a map, which may change only events of the `touched` types."""
    mapped = cast("EventStore", Mapped(store, mapping))  # views only read, and Mapped supports only reading

    def at(upto: Position | None) -> OtherViews:
        views = truth(upto)
        return OtherViews(views, ReplayedViews(mapped, views.upto), touched)

    return at


def under_rule(rule: PromotionRule) -> EventMap:
    """A map that replaces the rule of every proposal."""

    def put_rule(recorded: Recorded) -> Recorded:
        event = recorded.event
        if isinstance(event, RewriteProposed) and event.rule != rule:
            return replace(recorded, event=event.model_copy(update={"rule": rule}))
        return recorded

    return put_rule


def under_rewards(rewards: Mapping[Position, RewardGraded], passed: Mapping[str, bool]) -> EventMap:
    """A map that replaces rewards by position, and recomputes trials from the new outcomes.

    `passed` holds the new outcome of each run whose outcome changed.
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
    """The trial with the new outcomes of its runs."""
    flipped = [passed[run] for run in event.control_runs if run in passed]
    successes = event.control_successes + sum(1 if is_passed else -1 for is_passed in flipped)
    if isinstance(event, PieceTried):
        won = passed.get(event.run, event.won)
        return event.model_copy(update={"control_successes": successes, "won": won})
    kind = RewriteWon if passed.get(event.run, isinstance(event, RewriteWon)) else RewriteLost
    return kind(rewrite=event.rewrite, run=event.run, control_runs=event.control_runs, control_successes=successes)
