"""What a course of the fast loop is asked to do: how large its rounds are, by which rules, and when it stops."""

from __future__ import annotations

from dataclasses import dataclass, field

from agents.learning.memory import EVERY_KIND
from agents.rollouts.dispatching.dispatch import MAX_PARALLEL
from agents.rollouts.play import TRIES
from eventlog.events import Decay, PairedRule, PieceKind, PromotionRule, Rules, Trials

CONTROLLER = "controller"
"""The actor of what the fast loop appends."""

SLOW_CONTROLLER = "slow-controller"
"""The actor of what the slow loop appends."""

WARM_UP = "warm-up"
"""The actor of what a warm-up appends."""

BASE = "base"
"""The weights of the first champion: the bare plans, or the base model."""


@dataclass(frozen=True, slots=True)
class Course:
    """How large a round is and when to stop. Seeds are taken in order, so every round sees new ones.

    Training seeds end before the benchmark's begin: those are other instances, the sealed ones of other families.
    `verify_steps` has each step checked right after it, which costs a request a step. A run that takes longer than
    `timeout_s` is missing (None: it is waited for). The `max_` numbers are its budget (None: no bound); `clusters` are
    those whose tasks are played (none: all). What fails but the agent is begun `tries` times, and so is an arm's
    run that takes too long. `rule` decides what recovery proposes and capture finds; `kinds`
    are those that are captured, tried and remembered. A round takes more `siblings` where the rules of
    what is on trial ask for more; `trials` are the shares of its groups that try a piece. With `rules` of 40 pairs at
    least, 50 sealed seeds are enough for a single template.
    """

    seeds_per_round: int = 12
    siblings: int = 2
    training_seeds: int = 9_000
    max_rounds: int = 8
    max_runs: int | None = None
    max_micro_dollars: int | None = None
    max_minutes: int | None = None
    max_verdicts: int | None = None
    clusters: tuple[str, ...] = ()
    visible_seeds: tuple[int, ...] = (9_000, 9_001, 9_002, 9_003)
    sealed_seeds: tuple[int, ...] = tuple(range(10_000, 10_050))
    repeats: int = 1
    max_parallel: int = MAX_PARALLEL
    timeout_s: float | None = None
    tries: int = TRIES
    rng_seed: int = 7
    verify_steps: bool = False
    rule: PromotionRule = field(default_factory=PairedRule)
    trials: Trials = field(default_factory=Trials)
    decay: Decay = field(default_factory=Decay)
    kinds: frozenset[PieceKind] = EVERY_KIND
    rules: Rules = field(default_factory=Rules)
