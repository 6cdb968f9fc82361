"""The allocator: choose the substrate that a group of a cluster learns by. Pure over the fold's substrate values.

Substrates never credited go first, then epsilon-greedy. Random draws depend only on fields of the choice's event, so
every choice can be reproduced. Ties are broken by name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from eventlog.chain import digest
from eventlog.events import ChoiceReason, Decay, PieceKind, Spec, Substrate, SubstrateChosen, SubstrateCredited
from projections.rewards import RewardState
from projections.substrates import SubstrateState, SubstrateStats, cluster_key, standings

KINDS: Final[Mapping[Substrate, PieceKind]] = {
    "hints": "hint",
    "exemplars": "exemplar",
    "rewrites": "rewrite",
    "curriculum": "snippet",
    "recipes": "recipe",
}
SUBSTRATE_OF: Final[Mapping[PieceKind, Substrate]] = {kind: name for name, kind in KINDS.items()}
PATIENCE: Final = 3
"""Choices without an applied piece after which a substrate counts as worth 0 in a cluster instead of unknown.

Choices whose run has no known reward or cost (an outage) do not count.
"""
_WHOLE: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Value:
    """Value of a substrate in a cluster: mean gain and mean cost in millionths; None while unknown.

    `pending` counts choices not credited yet; among unknown substrates the one with fewer goes first. `is_idle` marks
    a substrate that was tried and never applied; every credited substrate goes before it, even one with a loss.
    """

    substrate: Substrate
    gain: int | None
    cost: int | None
    pending: int = 0
    is_idle: bool = False


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
    return Value(substrate, standing.value, standing.mean_cost, pending)


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
    values: Collection[Value], can_be: Collection[Substrate], *, epsilon: int, stream: str
) -> Choice | None:
    """Choose one of the substrates in `can_be`; None if there is none.

    Unknown substrates go first, the one with the fewest pending choices before others. Otherwise, with probability
    `epsilon` (millionths), any of them, drawn from `stream`; else the one with the highest value, idle ones last.
    """
    open_ones = sorted((value for value in values if value.substrate in can_be), key=lambda value: value.substrate)
    if not open_ones:
        return None
    unknown = [value for value in open_ones if value.gain is None]
    if unknown:
        return Choice(min(unknown, key=lambda value: value.pending).substrate, "unknown", None)
    if _draw(stream, "explore") % _WHOLE < epsilon:
        found = open_ones[_draw(stream, "which") % len(open_ones)]
        return Choice(found.substrate, "explore", found.gain)
    found = max(open_ones, key=lambda value: (not value.is_idle, value.gain or 0))
    return Choice(found.substrate, "exploit", found.gain)


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
    decay: Decay = field(default_factory=Decay)


def allot_substrates(
    states: Mapping[str, SubstrateState], places: Iterable[OpenGroup], allotment: Allotment
) -> tuple[SubstrateChosen, ...]:
    """Choose a substrate for each group that can have one, in order; a choice counts as pending for later groups."""
    left, found = allotment.budget_left, []
    pending: dict[tuple[str, str], int] = {}
    for place in places:
        state = states.get(cluster_key(allotment.environment, place.cluster))
        known = standings(states, allotment.environment, place.cluster)
        before = {name: value_of(name, known.get(name)) for name in KINDS}
        values = [
            replace(value, pending=value.pending + pending.get((place.cluster, name), 0))
            for name, value in before.items()
        ]
        epsilon = allotment.decay.start if state is None or state.epsilon is None else state.epsilon
        stream = f"{allotment.seed}/{allotment.environment}/{place.cluster}/{place.group}"
        choice = choose_substrate(
            values, affordable_substrates(values, left) & place.open_to, epsilon=epsilon, stream=stream
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
                epsilon=epsilon,
                budget_left=left,
                seed=allotment.seed,
                decay=allotment.decay,
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
