"""The slow loop's next step: a pure reading of the log, so that a killed controller resumes where the log stands.

A round is a sweep, the dataset of its runs, one training stage on that, and the gate. The runs are played by the
weights that the stage then starts from, so that what GRPO reads was sampled by the policy it trains.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Literal

from agents.executors.executor import Executor
from eventlog.events import (
    BenchmarkFrozen,
    DpoConfig,
    DpoQuery,
    GrpoConfig,
    GrpoQuery,
    Query,
    RewardName,
    SftConfig,
    SftQuery,
    SweepPlanned,
)
from eventlog.store import EventStore
from gate.renewal import newest_successor
from projections.benchmarks import BENCHMARKS
from projections.checkpoints import WEIGHTS
from projections.engine.views import Views
from projections.frozen_datasets import CHECKPOINTS, DatasetState
from projections.trainings import TRAININGS, TrainingState, training_name
from projections.verdicts import VERDICTS, VerdictState

from ..course import BASE, SLOW_CONTROLLER, Course
from ..queries.benchmarks import benchmark_seeds, why_renew
from ..queries.champion import present_champion
from ..queries.facts import require
from ..queries.runs import pending_specs
from ..queries.sweeps import planned_by, sweeps_on
from ..sweeps.executors import plays
from ..sweeps.seeds import fresh_seeds
from ..training.stage_process import PROCESS_ENDED

MOST_ATTEMPTS = 3
"""Maximum attempts at a stage whose process dies, kills of the controller included. Memory may be too small for it."""

StageOf = SftConfig | DpoConfig | GrpoConfig

_MICRO = 1_000_000
_OPENED = attrgetter("opened_since")


@dataclass(frozen=True, slots=True)
class SlowCourse:
    """Configuration of the slow loop: its stages in order, the last one repeated, and the total number of rounds.

    `sizes` has the sizes of sweeps and benchmark and the gate's rules; the benchmark's seeds are drawn. Siblings are
    sampled at `temperature_micro`. DPO and GRPO use `reward`; SFT uses runs that passed, with `best_of_group` one per
    group. `tasks` are the tasks to play (empty: all that the site grades).
    """

    stages: tuple[StageOf, ...]
    max_rounds: int = 3
    sizes: Course = field(default_factory=lambda: Course(siblings=4))
    temperature_micro: int = _MICRO
    reward: RewardName = "score"
    best_of_group: bool = False
    tasks: tuple[str, ...] = ()

    def stage(self, number: int) -> StageOf:
        """Stage of a round; rounds are counted from 0."""
        return self.stages[min(number, len(self.stages) - 1)]

    def query(self, stage: StageOf, site: str, sweep: str) -> Query:
        """Dataset query of a stage: the runs of its sweep."""
        match stage:
            case SftConfig():
                return SftQuery(runs="policy", best_of_group=self.best_of_group, environment=site, sweep=sweep)
            case DpoConfig():
                return DpoQuery(reward=self.reward, environment=site, sweep=sweep)
            case GrpoConfig():
                return GrpoQuery(reward=self.reward, environment=site, sweep=sweep)


@dataclass(frozen=True, slots=True)
class SlowRound:
    """Progress of one round. None: the round has not reached that step."""

    sweep: SweepPlanned
    stage: StageOf
    query: Query
    dataset: DatasetState | None
    training: TrainingState | None
    verdict: VerdictState | None

    @property
    def parent(self) -> str | None:
        """The checkpoint that played the sweep and that training continues from; None: the base model."""
        return None if self.sweep.artifact.weights == BASE else self.sweep.artifact.weights

    @property
    def checkpoint(self) -> str | None:
        """Digest of the checkpoint that training saved; None if it has not."""
        return None if self.training is None else self.training.checkpoint


What = Literal["play_sweep", "freeze", "train", "renew_benchmark", "open_evaluation", "play_arms", "plan_sweep", "stop"]


@dataclass(frozen=True, slots=True)
class SlowNext:
    """The next step and the reason for it. `weights` are the weights for the next sweep."""

    what: What
    why: str
    round: SlowRound | None = None
    weights: str = BASE


def benchmark_name(site: str) -> str:
    """Name of the first benchmark for checkpoints."""
    return f"{site}-policies-1"


def policy_benchmark(views: Views, site: str) -> BenchmarkFrozen:
    """The current benchmark for checkpoints. Raises FactMissing."""
    benchmarks = views.find(BENCHMARKS)
    return require(benchmarks.get(newest_successor(benchmarks, benchmark_name(site)))).frozen_event()


def rounds_on(store: EventStore, views: Views, site: str) -> list[SweepPlanned]:
    """The sweeps that the slow loop planned on a site, in order."""
    return list(planned_by(store, views, SLOW_CONTROLLER, site))


def rounds_so_far(
    views: Views, sweeps: Sequence[SweepPlanned], course: SlowCourse, site: str, base: str
) -> tuple[SlowRound, ...]:
    """Progress of each round, in order. `sweeps` are the slow loop's own, `base` is the digest of the base model.

    A round with a verdict keeps its recorded training, even if the course has other stages now.
    """
    return tuple(_round(views, sweep, course.stage(number), course, site, base) for number, sweep in enumerate(sweeps))


def _round(views: Views, sweep: SweepPlanned, stage: StageOf, course: SlowCourse, site: str, base: str) -> SlowRound:
    query = course.query(stage, site, sweep.sweep)
    if (decided := _newest_verdict(views, sweep, site, base)) is not None:
        weights = require(views.get(WEIGHTS, decided.challenger["weights"]))
        dataset = views.get(CHECKPOINTS, f"dataset/{weights.dataset}")
        return SlowRound(sweep, stage, query, dataset, views.get(TRAININGS, weights.training), decided)
    frozen = [state for state in views.find(CHECKPOINTS, "dataset/").values() if state.parse_query() == query]
    dataset = max(frozen, key=lambda state: state.frozen_since, default=None)
    before = SlowRound(sweep, stage, query, dataset, None, None)
    if dataset is None:
        return before
    training = views.get(TRAININGS, training_name(dataset.dataset, base, before.parent, stage))
    judged = () if training is None else _judged_evaluations(views, site, {training.checkpoint})
    return SlowRound(sweep, stage, query, dataset, training, max(judged, key=_OPENED, default=None))


def _newest_verdict(views: Views, sweep: SweepPlanned, site: str, base: str) -> VerdictState | None:
    """The newest verdict on a checkpoint trained on a sweep, by any stage."""
    datasets = {s.dataset for s in views.find(CHECKPOINTS, "dataset/").values() if s.parse_query().sweep == sweep.sweep}
    learned = {s.checkpoint for s in views.find(WEIGHTS).values() if s.dataset in datasets and s.base == base}
    decided = (state for state in _judged_evaluations(views, site, learned) if state.decision is not None)
    return max(decided, key=_OPENED, default=None)


def _judged_evaluations(views: Views, site: str, checkpoints: Collection[str | None]) -> tuple[VerdictState, ...]:
    """Evaluations of these checkpoints on the slow loop's own benchmarks."""
    own = slow_benchmarks(views, site)
    every = views.find(VERDICTS).values()
    return tuple(s for s in every if s.benchmark in own and s.challenger["weights"] in checkpoints)


def slow_benchmarks(views: Views, site: str) -> frozenset[str]:
    """Names of the first benchmark for checkpoints and of its successors."""
    states, found = views.find(BENCHMARKS), {benchmark_name(site)}
    while more := {key for key, state in states.items() if state.successor_of in found} - found:
        found |= more
    return frozenset(found)


def decide_slow(
    views: Views,
    rounds: Sequence[SlowRound],
    *,
    course: SlowCourse,
    site: str,
    base: str,
    executor: Executor,
    barren: Collection[str] = (),
) -> SlowNext:
    """Decide the next step: finish the last round, then start another one.

    A round is over if its sweep gave no rows (`barren`) or its training failed. A stage whose process died is retried,
    up to MOST_ATTEMPTS attempts.
    """
    last = rounds[-1] if rounds else None
    if last is not None and plays(executor, last.sweep):
        unfinished = _within(views, last, course, site, barren)
        if unfinished is not None:
            return unfinished
    if len(rounds) >= course.max_rounds:
        return SlowNext("stop", f"no round is left of {course.max_rounds}")
    if not fresh_seeds(sweeps_on(views, site), course.sizes, held=benchmark_seeds(views, site)):
        why = f"all {course.sizes.training_seeds} training seeds were used, or are reserved by a benchmark"
        return SlowNext("stop", why)
    return SlowNext("plan_sweep", "there are rounds left", weights=weights_to_go_on_with(views, rounds, base))


def _within(views: Views, last: SlowRound, course: SlowCourse, site: str, barren: Collection[str]) -> SlowNext | None:
    """The next step within a round; None if the round is over."""
    name = last.sweep.sweep
    if pending_specs(views, last.sweep.specs, f"{name}__"):
        return SlowNext("play_sweep", "a sweep was planned and has not ended", last)
    if name in barren:
        return None
    if last.dataset is None:
        return SlowNext("freeze", f"{name} has ended, and its runs are in no dataset", last)
    if last.training is not None and _is_given_up(last.training):
        return None
    if last.checkpoint is None:
        return SlowNext("train", f"the dataset of {name} was not trained on", last)
    if last.verdict is None:
        return _judge_next(views, last, course, site)
    if last.verdict.decision is None:
        return SlowNext("play_arms", "an evaluation was opened and has no verdict", last)
    return None


def _is_given_up(training: TrainingState) -> bool:
    """True if a stage failed and is not retried. An error of training itself would occur again."""
    may_pass = training.error == PROCESS_ENDED and training.attempts < MOST_ATTEMPTS
    return training.status == "failed" and not may_pass


def _judge_next(views: Views, last: SlowRound, course: SlowCourse, site: str) -> SlowNext:
    why = why_renew(views, policy_benchmark(views, site), course.sizes.rules)
    if why is not None:
        return SlowNext("renew_benchmark", why, last)
    return SlowNext("open_evaluation", "a checkpoint was saved that nobody judged", last)


def weights_to_go_on_with(views: Views, rounds: Sequence[SlowRound], base: str) -> str:
    """The newest checkpoint that was promoted over the present champion and waits for other sites, else the champion's.

    Of a verdict only its decision is read: sealed figures choose nothing that is judged again. If the champion has
    another base: BASE.
    """
    present = present_champion(views).pointed_artifact().weights
    for each in reversed(rounds):
        if each.checkpoint is not None and _was_promoted(each.verdict, present):
            return each.checkpoint
    state = views.get(WEIGHTS, present)
    return present if state is not None and state.base == base else BASE


def _was_promoted(state: VerdictState | None, champion_weights: str) -> bool:
    """True if a verdict promotes a challenger over a champion of these weights."""
    return state is not None and state.decision == "promote" and state.champion["weights"] == champion_weights
