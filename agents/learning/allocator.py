"""The allocator: choose the substrate that a group of a cluster learns by. Pure over the fold's substrate values.

Substrates never credited go first, then discounted Thompson sampling: each value is drawn around its mean over recent
runs, with a prior of one run worth nothing, and the highest draw is chosen (Thompson, Biometrika 25, 1933; discounted:
Raj and Kalyani, arXiv 1707.09727). Everything is in integers, and draws depend only on fields of the choice's event, so
every choice can be reproduced. Ties are broken by name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import isqrt
from typing import Final

from eventlog.chain import digest
from eventlog.events import ChoiceReason, Forgetting, PieceKind, Spec, Substrate, SubstrateChosen, SubstrateCredited
from projections.rewards import RewardState
from projections.substrates import SubstrateState, SubstrateStats, standings

KINDS: Final[Mapping[Substrate, PieceKind]] = {
    "hints": "hint",
    "exemplars": "exemplar",
    "rewrites": "rewrite",
    "curriculum": "snippet",
    "recipes": "recipe",
    "skills": "skill",
    "instructions": "instruction",
}
SUBSTRATE_OF: Final[Mapping[PieceKind, Substrate]] = {kind: name for name, kind in KINDS.items()}
PATIENCE: Final = 3
"""Choices without an applied piece after which a substrate counts as worth 0 in a cluster instead of unknown.

Choices whose run has no known reward or cost (an outage) do not count.
"""
IDLE_TURN: Final = 20
"""In one of this many choices, drawn by seed, a substrate that never applied takes part like the others."""
_WHOLE: Final = 1_000_000
_UNIFORMS: Final = 12
"""A normal number is drawn as the sum of twelve uniform ones less its mean; its standard deviation is 1."""


@dataclass(frozen=True, slots=True)
class Value:
    """Value of a substrate in a cluster: recent mean gain and mean cost in millionths; None while unknown.

    `weight` is the discounted number of runs behind the gain, in millionths. `pending` counts choices not credited yet;
    among unknown substrates the one with fewer goes first. `is_idle` marks a substrate that was tried and never
    applied; a credited one goes before it, even one with a loss, except in one of IDLE_TURN choices.
    """

    substrate: Substrate
    gain: int | None
    cost: int | None
    pending: int = 0
    is_idle: bool = False
    weight: int = 0


@dataclass(frozen=True, slots=True)
class Choice:
    """The chosen substrate, the reason, and its value then."""

    substrate: Substrate
    reason: ChoiceReason
    value: int | None


def value_of(substrate: Substrate, standing: SubstrateStats | None) -> Value:
    """Value of a substrate computed from the fold's statistics."""
    if standing is None:
        return Value(substrate, None, None)
    pending = max(0, standing.chosen - standing.pulls - standing.idle - standing.unknown)
    if not standing.pulls and standing.idle >= PATIENCE:
        return Value(substrate, 0, 0, pending, is_idle=True)
    return Value(substrate, standing.value, standing.mean_cost, pending, weight=standing.weight)


def affordable_substrates(values: Iterable[Value], budget_left: int | None) -> frozenset[Substrate]:
    """Substrates that the remaining budget allows (micro-dollars; None for no limit).

    An unknown cost counts as the highest known cost.
    """
    known = list(values)
    dearest = max((value.cost or 0 for value in known), default=0)
    costs = {value.substrate: dearest if value.cost is None else value.cost for value in known}
    return frozenset(
        name for name, cost in costs.items() if budget_left is None or (budget_left > 0 and cost <= budget_left)
    )


def choose_substrate(
    values: Collection[Value], can_be: Collection[Substrate], *, forgetting: Forgetting, stream: str
) -> Choice | None:
    """Choose one of the substrates in `can_be`; None if there is none.

    Unknown substrates go first, the one with the fewest pending choices before others. Otherwise the one whose value,
    drawn from `stream`, is highest.
    """
    open_ones = sorted((value for value in values if value.substrate in can_be), key=lambda value: value.substrate)
    if not open_ones:
        return None
    unknown = [value for value in open_ones if value.gain is None]
    if unknown:
        return Choice(min(unknown, key=lambda value: value.pending).substrate, "unknown", None)
    credited = [value for value in open_ones if not value.is_idle]
    pool = credited if credited and _draw(stream, "idle") % IDLE_TURN else open_ones
    found = max(pool, key=lambda value: _draw_value(value, forgetting, stream))
    best = max(open_ones, key=lambda value: (not value.is_idle, value.gain or 0))
    return Choice(found.substrate, "exploit" if found is best else "explore", found.gain)


def _draw_value(value: Value, forgetting: Forgetting, stream: str) -> int:
    """A draw around the mean of the value's recent runs and one run worth nothing, in millionths."""
    runs = value.weight + _WHOLE
    noise = forgetting.spread * _draw_normal(stream, value.substrate) // isqrt(runs * _WHOLE)
    return (value.gain or 0) * value.weight // runs + noise


def _draw_normal(stream: str, what: str) -> int:
    """A number from about the normal distribution, in millionths, by the first twelve 16-bit words of a digest."""
    word = 1 << 16
    drawn = digest([stream, what])
    total = sum(int.from_bytes(drawn[2 * place : 2 * place + 2]) for place in range(_UNIFORMS))
    return (2 * total - _UNIFORMS * (word - 1)) * _WHOLE // (2 * word)


def greedy(values: Iterable[Value]) -> Substrate | None:
    """Substrate with the highest value, as an evaluation chooses it; None if no value is above 0."""
    worth = sorted((value for value in values if (value.gain or 0) > 0), key=lambda value: value.substrate)
    return max(worth, key=lambda value: value.gain or 0).substrate if worth else None


def _draw(stream: str, what: str) -> int:
    return int(digest([stream, what]).hex()[:15], 16)


@dataclass(frozen=True, slots=True)
class OpenGroup:
    """A group and the substrates that it may learn by."""

    group: str
    cluster: str
    open_to: frozenset[Substrate]


@dataclass(frozen=True, slots=True)
class Allotment:
    """Parameters shared by all choices of a sweep; `budget_left` in micro-dollars, None for no limit."""

    environment: str
    sweep: str
    seed: int
    budget_left: int | None = None
    forgetting: Forgetting = field(default_factory=Forgetting)


def allot_substrates(
    states: Mapping[str, SubstrateState], places: Iterable[OpenGroup], allotment: Allotment
) -> tuple[SubstrateChosen, ...]:
    """Choose a substrate for each group that can have one, in order; a choice counts as pending for later groups."""
    left, found = allotment.budget_left, []
    pending: dict[tuple[str, str], int] = {}
    for place in places:
        known = standings(states, allotment.environment, place.cluster)
        before = {name: value_of(name, known.get(name)) for name in KINDS}
        values = [
            replace(value, pending=value.pending + pending.get((place.cluster, name), 0))
            for name, value in before.items()
        ]
        stream = f"{allotment.seed}/{allotment.environment}/{place.cluster}/{place.group}"
        choice = choose_substrate(
            values, affordable_substrates(values, left) & place.open_to, forgetting=allotment.forgetting, stream=stream
        )
        if choice is None:
            continue
        found.append(
            SubstrateChosen(
                environment=allotment.environment,
                cluster=place.cluster,
                substrate=choice.substrate,
                sweep=allotment.sweep,
                group=place.group,
                reason=choice.reason,
                value=choice.value,
                epsilon=None,
                budget_left=left,
                seed=allotment.seed,
                decay=None,
                forgetting=allotment.forgetting,
            )
        )
        place_of = (place.cluster, choice.substrate)
        pending[place_of] = pending.get(place_of, 0) + 1
        if left is not None:
            left = max(0, left - (before[choice.substrate].cost or 0))
    return tuple(found)


def credit_choice(
    choice: SubstrateChosen,
    carrier: Spec,
    controls: Iterable[Spec],
    rewards: Mapping[str, RewardState],
    *,
    applied: bool,
) -> SubstrateCredited:
    """Credit of a choice: the reward of the run that carried its candidate less the mean reward of the controls."""
    names = tuple(sorted(spec.spec_id for spec in controls))
    reward, beside = rewards.get(carrier.spec_id), [rewards.get(name) for name in names]
    values = [each.value for each in beside if each is not None and each.value is not None]
    gain = None
    if reward is not None and reward.value is not None and values and len(values) == len(names):
        gain = (reward.value * len(values) - sum(values)) // len(values)
    return SubstrateCredited(
        environment=choice.environment,
        cluster=choice.cluster,
        substrate=choice.substrate,
        group=choice.group,
        run=carrier.spec_id,
        control_runs=names,
        applied=applied,
        gain=gain,
        cost=None if reward is None else reward.cost,
    )
