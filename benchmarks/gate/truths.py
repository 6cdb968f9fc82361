"""Worlds whose truth is known, as batches of simulated evaluations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .looks import REPLAYS, Batch
from .worlds import TEMPLATES

Rng = np.random.Generator
BASE = 0.6
_CONCENTRATION = 4
_RARE = 0.05


@dataclass(frozen=True, slots=True)
class Shape:
    """Sealed instances of five templates, and repeats of each."""

    instances: int = 100
    repeats: int = 3

    def __str__(self) -> str:
        return f"{self.instances} × {self.repeats}"


Truth = Callable[[Rng, int, Shape], Batch]
"""Draws so many evaluations of a world."""


def passing(rng: Rng, chances: tuple[Any, Any], shape: Shape, **also: Any) -> Batch:
    """Runs that pass or fail with these chances, shaped (evaluations, instances), in both arms."""
    first, second = ((rng.random((*each.shape, shape.repeats)) < each[..., None]).astype(np.int64) for each in chances)

    def again(one: int, place: int, arm: int, size: int) -> tuple[Any, Any]:
        return (rng.random(size) < chances[arm][one, place]).astype(np.int64), np.zeros(size, dtype=np.int64)

    return Batch(first, second, again, **also)


def play_runs(rng: Rng, chances: Any, lost: float, crashes: float) -> tuple[Any, Any]:
    """Scores of runs that pass with these chances, and how often each was lost: by the platform, or as it would fail.

    A lost run is tried again as often as the rules play it again; one that is lost each time has no result.
    """
    tries = rng.random((*chances.shape, REPLAYS + 1)) < chances[..., None]
    is_lost = (rng.random(tries.shape) < lost) | (~tries & (rng.random(tries.shape) < crashes))
    times = np.where(is_lost.all(axis=-1), REPLAYS + 1, (~is_lost).argmax(axis=-1))
    ends = np.minimum(times, REPLAYS)[..., None]
    return np.take_along_axis(tries, ends, axis=-1)[..., 0].astype(np.int64), times


def _even(_rng: Rng, count: int, shape: Shape) -> Any:
    return np.full((count, shape.instances), BASE)


def _uneven(rng: Rng, count: int, shape: Shape) -> Any:
    return rng.beta(_CONCENTRATION * BASE, _CONCENTRATION * (1 - BASE), (count, shape.instances))


def better(gain: float, *, is_uneven: bool = False) -> Truth:
    """A challenger better by `gain` on every instance; 0 is no difference."""

    def truth(rng: Rng, count: int, shape: Shape) -> Batch:
        base = (_uneven if is_uneven else _even)(rng, count, shape)
        if not is_uneven:
            return passing(rng, (base, base + gain), shape)
        span = np.where(gain > 0, 1 - base, base) / (1 - BASE if gain > 0 else BASE)
        return passing(rng, (base, np.clip(base + gain * span, 0, 1)), shape)

    return truth


def seed_effects(*, are_shared: bool, rare: bool = False) -> Truth:
    """A seed moves the challenger by ±.3 (or one in twenty by ±.9 of what it can), with all templates that share it."""

    def truth(rng: Rng, count: int, shape: Shape) -> Batch:
        seeds = shape.instances // TEMPLATES if are_shared else shape.instances
        signs = rng.choice([-1, 1], (count, seeds))
        moved = signs * (0.9 * (rng.random((count, seeds)) < _RARE) if rare else 0.3)
        effect = np.repeat(moved, TEMPLATES, axis=1) if are_shared else moved
        base = np.full(effect.shape, 0.5)
        chances = (base - effect / 2, base + effect / 2)
        return passing(rng, chances, shape, unit=TEMPLATES if are_shared else 1)

    return truth


def same_every_time(rng: Rng, count: int, shape: Shape) -> Batch:
    """Plans that do the same at every repeat: each arm passes an instance always or never."""
    chances = tuple((rng.random((count, shape.instances)) < BASE).astype(float) for _ in range(2))
    return passing(rng, (chances[0], chances[1]), shape)


def drifting(rng: Rng, count: int, shape: Shape) -> Batch:
    """An environment in which both arms get worse while they play, from .8 to .4."""
    base = np.tile(np.linspace(0.8, 0.4, shape.instances), (count, 1))
    return passing(rng, (base, base), shape)


def drifting_effect(first: float, *, is_by_time: bool) -> Truth:
    """A challenger whose effect goes from `first` to minus that, over the seeds or over the time of play.

    The mean over all instances is zero. Seeds are met in a drawn order, so that over the seeds no look sees more of
    one end.
    """

    def truth(rng: Rng, count: int, shape: Shape) -> Batch:
        effect = np.tile(np.linspace(first, -first, shape.instances), (count, 1))
        if not is_by_time:
            effect = rng.permuted(effect, axis=1)
        return replace(passing(rng, (BASE - effect / 2, BASE + effect / 2), shape), effect=effect)

    return truth


def lossy(gain: float, lost: float, crashes: float = 0.0, base: float = BASE) -> Truth:
    """The platform loses this share of runs in both arms, and the challenger `crashes` on a share of what it fails."""

    def truth(rng: Rng, count: int, shape: Shape) -> Batch:
        chances = np.full((2, count, shape.instances), base) + np.array([0, gain])[:, None, None]
        (first, times), (second, also) = (play_runs(rng, own, lost, arm * crashes) for arm, own in enumerate(chances))
        lots = np.stack([times, also])

        def again(one: int, place: int, arm: int, size: int) -> tuple[Any, Any]:
            return play_runs(rng, np.full(size, chances[arm, one, place]), lost, arm * crashes)

        kept = (lots <= REPLAYS).all(axis=0)
        return Batch(first[..., None], second[..., None], again, lost=lots, kept=kept)

    return truth


def scores(*, loses: bool, gain: float = 0.0) -> Truth:
    """Scores in quarters that never reach one; `loses`: those of the first template fall by half, the others gain."""

    def truth(rng: Rng, count: int, shape: Shape) -> Batch:
        of_first = (np.arange(shape.instances) % TEMPLATES == 0) & loses
        chances = np.where(of_first, 0.9, 0.55), np.where(of_first, 0.45, 0.55 + gain)

        def drawn(arm: int, size: tuple[int, ...]) -> Any:
            return rng.binomial(3, np.broadcast_to(chances[arm][:, None], size))

        def again(_one: int, place: int, arm: int, size: int) -> tuple[Any, Any]:
            return rng.binomial(3, chances[arm][place], size), np.zeros(size, dtype=np.int64)

        size = count, shape.instances, shape.repeats
        return Batch(drawn(0, size), drawn(1, size), again, grain=4)

    return truth


def one_family(loss: float, gain: float = 0.18) -> Truth:
    """One template of five loses, the others gain."""

    def truth(rng: Rng, count: int, shape: Shape) -> Batch:
        base = _even(rng, count, shape)
        moved = np.where(np.arange(shape.instances) % TEMPLATES == 0, -loss, gain)
        return passing(rng, (base, base + moved), shape)

    return truth
