"""Inputs and outputs of step rewards: micro-units, one value per component, so that nothing is blended. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypedDict

from .steps import MutationKey

Action = str
"""The agent's action as text; equal texts are the same action."""


class Info(TypedDict, total=False):
    """Facts of a step, from the caller's loop.

    `oracle_mutations_delta`: mutations since the step before (absent if the site could not be read).
    `oracle_step_kind`: purpose of the step. `url`: the page it led to. `is_malformed`: the action was not readable.
    """

    oracle_mutations_delta: Sequence[Mapping[str, object]]
    oracle_step_kind: str
    url: str
    is_malformed: bool


class Grading(TypedDict, total=False):
    """Result of `grade_run` (the seeds' GradingResult as a dictionary); with `error` there is no grade."""

    task_id: str
    passed: bool
    score_micro: int
    reasons: Sequence[str]
    diff: Mapping[str, object]
    error: str


class Extras(TypedDict, total=False):
    """Values carried along a run. `oracle_paid` and `oracle_step_total` are maintained by EpisodeState.after."""

    oracle_terminal: Grading
    oracle_step_total: int
    oracle_paid: frozenset[MutationKey]


@dataclass(frozen=True, slots=True)
class GymResult:
    """Result of a step, from the environment."""

    info: Info = field(default_factory=Info)


@dataclass(frozen=True, slots=True)
class RunResult:
    """The agent's own report at its end: whether it declared itself done, and its summary by field."""

    is_done: bool = False
    summary: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RewardSignal:
    """Micro-reward by component; `paid` are the mutations that it rewards."""

    components: Mapping[str, int] = field(default_factory=dict)
    paid: frozenset[MutationKey] = frozenset()

    @property
    def value(self) -> int:
        """Sum of the components."""
        return sum(self.components.values())

    def __add__(self, other: RewardSignal) -> RewardSignal:
        names = [*self.components, *(name for name in other.components if name not in self.components)]
        total = {name: self.components.get(name, 0) + other.components.get(name, 0) for name in names}
        return RewardSignal(total, self.paid | other.paid)


@dataclass(frozen=True, slots=True)
class EpisodeState:
    """A run up to now (the seeds' EpisodeState): its actions, the pages it visited, and its carried values."""

    actions: tuple[Action, ...] = ()
    urls: tuple[str, ...] = ()
    extras: Extras = field(default_factory=Extras)

    def after(self, action: Action, gym_result: GymResult, signal: RewardSignal) -> EpisodeState:
        """State after a step that earned `signal`."""
        url = gym_result.info.get("url")
        extras = Extras(**self.extras)
        extras["oracle_paid"] = extras.get("oracle_paid", frozenset()) | signal.paid
        extras["oracle_step_total"] = extras.get("oracle_step_total", 0) + signal.components.get("oracle_step", 0)
        return EpisodeState((*self.actions, action), self.urls if url is None else (*self.urls, url), extras)

    def with_grade(self, terminal: Grading) -> EpisodeState:
        """State with the oracle's grade of the run."""
        extras = Extras(**self.extras)
        extras["oracle_terminal"] = terminal
        return EpisodeState(self.actions, self.urls, extras)
