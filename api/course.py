"""Configuration of a course of the fast loop: size of its rounds, rules and budget."""

from __future__ import annotations

from dataclasses import dataclass, field

from agents.learning.memory import EVERY_KIND
from agents.rollouts.dispatching.dispatch import MAX_PARALLEL
from agents.rollouts.play import TRIES
from eventlog.events import Forgetting, PairedRule, PieceKind, PromotionRule, Rules, Trials
from gate.renewal import SeedAmounts

CONTROLLER = "controller"
"""Actor of events appended by the fast loop."""

SLOW_CONTROLLER = "slow-controller"
"""Actor of events appended by the slow loop."""

WARM_UP = "warm-up"
"""Actor of events appended by a warm-up."""

BASE = "base"
"""Weights of the first champion: plans without memory, or the base model."""


@dataclass(frozen=True, slots=True)
class Course:
    """Size of a round, rules and budget of a course. Seeds are taken in order, so every round uses new ones.

    Training seeds go from `first_seed` to below `training_seeds`, and no seed of the benchmark is among them; sealed
    instances come from other families. `verify_steps`
    checks each step right after it, at one request per step. A run longer than `timeout_s` counts as missing (None: no
    limit). The `max_` fields are the budget (None: no limit). `clusters` selects the tasks (empty: all). A run that
    fails for another reason than the agent is tried `tries` times in all, and so is a run of an evaluation that takes
    too long. The first benchmark deals `visible_seeds` and `sealed_seeds` out among its templates, so that no two share
    a seed, and a later one has as many. `rule` is the promotion rule of new pieces; `kinds` are the kinds of pieces
    captured, tried and remembered. A round has more than `siblings` siblings if the rules of pieces on trial need more.
    `trials` are the shares of groups that try a piece. `rules` are the gate's. A model that is told memory draws at
    `temperature_micro` in sweeps, so that siblings differ.
    """

    seeds_per_round: int = 12
    siblings: int = 2
    first_seed: int = 0
    training_seeds: int = 9_000
    max_rounds: int = 8
    max_runs: int | None = None
    max_micro_dollars: int | None = None
    max_minutes: int | None = None
    max_verdicts: int | None = None
    clusters: tuple[str, ...] = ()
    visible_seeds: tuple[int, ...] = (9_000, 9_001, 9_002, 9_003)
    sealed_seeds: tuple[int, ...] = tuple(range(10_000, 10_260))
    repeats: int = 1
    max_parallel: int = MAX_PARALLEL
    timeout_s: float | None = None
    tries: int = TRIES
    rng_seed: int = 7
    verify_steps: bool = False
    rule: PromotionRule = field(default_factory=PairedRule.current)
    trials: Trials = field(default_factory=Trials.current)
    forgetting: Forgetting = field(default_factory=Forgetting)
    kinds: frozenset[PieceKind] = EVERY_KIND
    rules: Rules = field(default_factory=Rules.default)
    temperature_micro: int = 700_000

    def amounts(self, templates: int) -> SeedAmounts:
        """Seeds of each of so many templates, at least one if there are any, and repeats."""
        visible, sealed = (-(-len(seeds) // templates) for seeds in (self.visible_seeds, self.sealed_seeds))
        return SeedAmounts(visible, sealed, self.repeats)
