"""Choosers that make each challenger from what they were told of those before; none is better on new seeds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from eventlog.events import Rules

from . import truths
from .looks import Batch, Tally, confirm_rejected, walk
from .truths import Rng, Shape
from .worlds import TEMPLATES

Tells = Literal["decisions", "looks", "looks and bands"]
"""What a chooser is told: promoted or held; at which look it stopped too; and in which coarse band the figures lie."""

CHANGE: Final = 0.3
"""What a challenger changes on each sealed instance, up or down: worth nothing on new seeds."""

_HALF: Final = 0.5
_LOOKS: Final = 5
_BAND: Final = 0.1
_FIFTHS: Final = 5


@dataclass(frozen=True, slots=True)
class Chooser:
    """How challengers are made (`make`), from what, and whether all of them meet the instances in one order."""

    name: str
    make: Callable[[Rng, Any, Any], Any]
    tells: Tells
    is_one_order: bool = False

    def __str__(self) -> str:
        order = ", one order for all" if self.is_one_order else ""
        return f"{self.name} chooser told {self.tells}{order}"


def make_independently(rng: Rng, changes: Any, values: Any) -> Any:
    """Changes that nothing was learned for."""
    return _draw_changes(rng, (values.shape[0], changes.shape[-1]))


def climb(rng: Rng, changes: Any, values: Any) -> Any:
    """About half of the changes of the challenger that went furthest (of equal ones the first), the others anew."""
    new = _draw_changes(rng, (values.shape[0], changes.shape[-1]))
    if not len(changes):
        return new
    best = changes[values.argmax(axis=1), np.arange(len(values))]
    return np.where(rng.random(new.shape) < _HALF, best, new)


def vote(rng: Rng, changes: Any, values: Any) -> Any:
    """Each change as those before it that went well had it, with more trust the more were tried, else anew."""
    new = _draw_changes(rng, (values.shape[0], changes.shape[-1]))
    if len(changes) < 2:  # noqa: PLR2004 one value has nothing to be compared with
        return new
    weights = values - values.mean(axis=1, keepdims=True)
    votes = np.einsum("ck,kci->ci", weights, changes)
    is_followed = rng.random(new.shape) < len(changes) / (len(changes) + _LOOKS)
    return np.where(is_followed & (votes != 0), np.sign(votes), new)


def _draw_changes(rng: Rng, shape: tuple[int, ...]) -> Any:
    return rng.choice(np.array([-1.0, 1.0]), shape)


@dataclass(frozen=True, slots=True)
class Promotions:
    """Courses in which any challenger passed the test, and in which any was promoted by all rules."""

    passed: int
    promoted: int
    courses: int


def play_courses(
    chooser: Chooser, shape: Shape, rules: Rules, alpha: int, challengers: int, courses: int, rng: Rng
) -> Promotions:
    """Let a chooser make so many challengers one after another, in so many courses; a promotion ends its course."""
    changes = np.zeros((0, courses, shape.instances))
    values = np.zeros((courses, 0))
    passed, promoted = np.zeros(courses, dtype=bool), np.zeros(courses, dtype=bool)
    for _ in range(challengers):
        tried = chooser.make(rng, changes, values)
        order = _draw_orders(rng, courses, shape, is_one=chooser.is_one_order)
        met = CHANGE * np.take_along_axis(tried, order, axis=1)
        batch = truths.passing(rng, (_HALF - met / 2, _HALF + met / 2), shape)
        stop, is_rejected = walk(batch, rules, alpha)
        wins = confirm_rejected(batch, rules, stop, is_rejected & ~promoted, Tally())
        passed |= is_rejected & ~promoted
        promoted |= wins
        value = _value(chooser.tells, batch, rules, stop, wins)
        changes = np.concatenate([changes, tried[None]])
        values = np.concatenate([values, value[:, None]], axis=1)
    return Promotions(int(passed.sum()), int(promoted.sum()), courses)


def _draw_orders(rng: Rng, courses: int, shape: Shape, *, is_one: bool) -> Any:
    """For each course the instances in the order in which they are met: seeds in turn, of each template another one."""
    seeds = shape.instances // TEMPLATES
    if is_one:
        return np.tile(np.arange(shape.instances), (courses, 1))
    drawn = rng.random((courses, seeds, TEMPLATES)).argsort(axis=1)
    return (drawn * TEMPLATES + np.arange(TEMPLATES)).reshape(courses, -1)


def _value(tells: Tells, batch: Batch, rules: Rules, stop: Any, is_promoted: Any) -> Any:
    """What a chooser is told of each challenger, as a number that is larger where it went better."""
    value = _LOOKS * is_promoted.astype(float)
    if tells == "decisions":
        return value
    value += stop
    if tells == "looks":
        return value
    ends = np.array([-(-batch.first.shape[1] * share // 1_000_000) for share in rules.looks])[stop]
    is_seen = np.arange(batch.first.shape[1]) < ends[:, None]
    arms = [(arm.mean(axis=2) * is_seen).sum(axis=1) / ends for arm in (batch.first, batch.second)]
    band = np.where(np.abs(arms[1] - arms[0]) > _BAND, np.sign(arms[1] - arms[0]), 0)
    fifths = [np.minimum(np.floor(_FIFTHS * arm), _FIFTHS - 1) for arm in arms]
    return value + 10 * band + 3 * (fifths[1] - fifths[0])
