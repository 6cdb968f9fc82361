"""Simulates the allocator over five ways to learn, the best of which turns bad halfway, beside the one it replaced."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from agents.learning.allocator import Value, choose_substrate
from eventlog.events import Forgetting, Substrate

PULLS, GROUPS = 480, 12
"""Runs of a simulation, and those of a round, which are credited together."""

_WHOLE = 1_000_000
ARMS: tuple[Substrate, ...] = ("curriculum", "exemplars", "hints", "recipes", "rewrites")
WORTH = dict(zip(ARMS, (0.2, 0.4, 0.8, 0.5, 0.05), strict=True))
BEST, BAD = ARMS[2], 0.05


def worth_at(pull: int) -> dict[Substrate, float]:
    """Mean gain of each substrate at a run."""
    return {**WORTH, BEST: BAD} if pull >= PULLS // 2 else WORTH


def play_forgetting(seed: int) -> list[float]:
    """Share of the best possible mean gain of each run, by the allocator as it stands."""
    forgetting, coin = Forgetting(), Random(seed)  # noqa: S311 a simulation
    known = dict.fromkeys(ARMS, (0, 0, 0))

    def choose(pull: int, pending: list[Substrate]) -> Substrate:
        values = [
            Value(name, None, None, pending.count(name))
            if not pulls
            else Value(name, recent * _WHOLE // weight if weight else 0, 0, weight=weight)
            for name, (pulls, weight, recent) in known.items()
        ]
        choice = choose_substrate(values, ARMS, forgetting=forgetting, stream=f"{seed}/{pull}")
        return ARMS[0] if choice is None else choice.substrate

    def credit(name: Substrate, gain: int) -> None:
        for each, (pulls, weight, recent) in known.items():
            kept = (pulls, weight * forgetting.keep // _WHOLE, recent * forgetting.keep // _WHOLE)
            known[each] = (kept[0] + 1, kept[1] + _WHOLE, kept[2] + gain) if each == name else kept

    return _play(coin, choose, credit)


def play_epsilon_greedy(seed: int) -> list[float]:
    """The same by epsilon-greedy over the means of all runs, epsilon 0.3 halved after 20 runs: version 1 of choices."""
    coin, draw = Random(seed), Random(f"{seed}/draw")  # noqa: S311 a simulation
    known = dict.fromkeys(ARMS, (0, 0))

    def choose(_pull: int, pending: list[Substrate]) -> Substrate:
        unknown = [name for name in ARMS if not known[name][0]]
        if unknown:
            return min(unknown, key=pending.count)
        if draw.random() < 0.3 * 20 / (20 + sum(pulls for pulls, _ in known.values())):
            return draw.choice(ARMS)
        return max(ARMS, key=lambda name: known[name][1] / known[name][0])

    def credit(name: Substrate, gain: int) -> None:
        pulls, total = known[name]
        known[name] = (pulls + 1, total + gain)

    return _play(coin, choose, credit)


def _play(
    coin: Random, choose: Callable[[int, list[Substrate]], Substrate], credit: Callable[[Substrate, int], None]
) -> list[float]:
    shares: list[float] = []
    for start in range(0, PULLS, GROUPS):
        found: list[Substrate] = []
        for pull in range(start, start + GROUPS):
            found.append(choose(pull, found))
            shares.append(worth_at(pull)[found[-1]] / max(worth_at(pull).values()))
        for name in found:
            credit(name, _WHOLE if coin.random() < worth_at(start)[name] else 0)
    return shares
