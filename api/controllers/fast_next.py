"""What is next: a pure reading of the log, so that a killed controller resumes where the log stands."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal, TypeVar

from agents.executors.executor import Executor
from agents.learning.memory import EVERY_KIND, forget_everything, remember
from agents.rollouts.dispatching.dispatch import MAX_PARALLEL
from agents.rollouts.play import PLAN, TRIES
from eventlog.events import (
    Artifact,
    BenchmarkFrozen,
    Decay,
    PairedRule,
    PieceKind,
    PromotionRule,
    Rules,
    Spec,
    SweepPlanned,
    Trials,
)
from gate.benchmark import sealed_instances
from gate.renewal import lacking, newest
from projections.alpha import ALPHA
from projections.benchmarks import BENCHMARKS, benchmark_instances
from projections.champions import CHAMPION, CHAMPIONS, ChampionState
from projections.costs import COSTS, PRICES, PriceBook
from projections.engine.views import Views
from projections.memories import candidacies
from projections.rewards import REWARDS, RewardState
from projections.runs import PLANLESS, RUNS, RunState
from projections.verdicts import VERDICTS

from ..errors import FactMissing
from ..sweeps.executors import plays

ACTOR = "controller"
BASE = "base"
FRUITLESS = 2
"""After so many rounds of a course, one with today's memory that leaves nothing on trial is the last."""
T = TypeVar("T")


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


@dataclass(frozen=True, slots=True)
class Next:
    """What to do next, and why."""

    what: Literal["play_sweep", "plan_sweep", "play_arms", "open_evaluation", "renew_benchmark", "stop"]
    why: str
    sweep: SweepPlanned | None = None
    evaluation: str | None = None


def decide(
    views: Views,
    sweeps: Sequence[SweepPlanned],
    *,
    rounds: int,
    course: Course,
    site: str,
    tryable: Collection[str],
    last: SweepPlanned | None = None,
    executor: Executor = PLAN,
    without: Collection[str] = (),
    void: str | None = None,
    is_concerned: bool = True,
) -> Next:
    """What the log says is next: first what was begun, then the gate for what was learned, then another round.

    A sweep that was planned for another executor is left to that one, an evaluation of policies to the slow loop.
    `last` is the controller's last round: only that says whether there is something to improve. What is cold
    (`without`) enters no challenger; `tryable` are the candidates for which a round could still bring evidence.
    A `void` evaluation, the last one that the course had decided, ends it: its arms could not be compared. Where no
    run of the site would be another one with what was learned (`is_concerned`), it is left to other sites to judge.
    """
    if void is not None:
        return Next("stop", f"{void} was decided: void")
    begun = _begun(views, sweeps, site, executor)
    if begun is not None:
        return begun
    present = champion(views).pointed()
    challenger, _blob = remember(views, present.weights, without=without, kinds=course.kinds)
    judged = {*_judged(views, site), present.memory.digest, _empty()}
    if is_concerned and challenger.memory.digest not in judged:
        return _judging(views, site, course)
    if last is not None and _is_clean(views, last, challenger):
        return Next("stop", f"every untreated run of {last.sweep} passed: nothing to improve")
    if rounds >= course.max_rounds:
        return Next("stop", f"{rounds} rounds brought nothing that the gate has not judged{_aside(views)}")
    if rounds >= FRUITLESS and last is not None and is_played_with(last, challenger) and not tryable:
        return Next("stop", f"nothing helps: runs of {last.sweep} failed, and nothing is on trial{_aside(views)}")
    if not fresh_seeds(sweeps, course, held=held_seeds(views, site)):
        return Next("stop", f"all {course.training_seeds} training seeds were used, or are held by a benchmark")
    return Next("plan_sweep", "there are failures to learn from")


def _begun(views: Views, sweeps: Sequence[SweepPlanned], site: str, executor: Executor) -> Next | None:
    """What was begun on the site and has not ended; None where nothing was."""
    for sweep in sweeps:
        if plays(executor, sweep) and unended(views, sweep.specs, f"{sweep.sweep}__"):
            return Next("play_sweep", "a sweep was planned and has not ended", sweep=sweep)
    for key, state in views.find(VERDICTS).items():
        if state.decision is None and state.executor not in PLANLESS and is_of(views, state.benchmark, site):
            return Next("play_arms", "an evaluation was opened and has no verdict", evaluation=key)
    return None


def _judged(views: Views, site: str) -> Iterator[str]:
    """The memories that were judged on a site, by digest. A void verdict judged nothing: its arms do not compare."""
    for state in views.find(VERDICTS).values():
        if state.decision != "void" and is_of(views, state.benchmark, site):
            yield state.challenger["memory"]["digest"]


def is_of(views: Views, benchmark: str, site: str) -> bool:
    """Whether a benchmark is of a site."""
    state = views.get(BENCHMARKS, benchmark)
    return state is not None and state.environment == site


def _judging(views: Views, site: str, course: Course) -> Next:
    """To the gate, first of all with a benchmark that can promote: it has alpha left, and instances enough."""
    benchmark = present_benchmark(views, site)
    if known(views.get(ALPHA, benchmark.benchmark)).is_exhausted:
        return Next("renew_benchmark", f"{benchmark.benchmark} is exhausted: it has judged all its challengers")
    if sealed_instances(benchmark) < course.rules.min_pairs:
        return Next("renew_benchmark", f"{benchmark.benchmark} is too small: {too_small(benchmark, course.rules)}")
    return Next("open_evaluation", "memory holds something that no champion was judged with")


def covering(views: Views, site: str, step: Next, tasks: Iterable[str]) -> Next:
    """What is next where the gate is: first of all a benchmark that holds the oracle tasks a course takes on.

    The first course of a site froze what it took on itself, which another one may go beyond.
    """
    present = present_benchmark(views, site)
    missing = lacking(present, tasks)
    if not missing:
        return step
    return Next("renew_benchmark", f"{present.benchmark} does not hold {', '.join(missing)}")


def _is_clean(views: Views, sweep: SweepPlanned, present: Artifact) -> bool:
    """Whether a sweep was played with today's memory and none of its untreated runs failed."""
    rewards = views.find(REWARDS, f"{sweep.sweep}__")
    failed = [spec for spec in sweep.specs if spec.is_plain and not _passed(rewards.get(spec.spec_id))]
    return is_played_with(sweep, present) and not failed


def is_played_with(sweep: SweepPlanned, present: Artifact) -> bool:
    """Whether a sweep was played with today's memory."""
    return sweep.artifact.memory.digest == present.memory.digest


def _passed(reward: RewardState | None) -> bool:
    return reward is not None and reward.passed


def _aside(views: Views) -> str:
    quarantined = [key for key, state in candidacies(views).items() if state.status == "quarantined"]
    return f"; quarantined since a rollback: {', '.join(quarantined)}" if quarantined else ""


def fresh_seeds(
    sweeps: Sequence[SweepPlanned], course: Course, amount: int | None = None, held: Collection[int] = frozenset()
) -> tuple[int, ...]:
    """The next training seeds that no sweep has seen and no benchmark holds (`held`).

    As many as a round takes or `amount`; fewer when they run out.
    """
    seen = {spec.env_seed for sweep in sweeps for spec in sweep.specs}.union(held)
    unseen = (seed for seed in range(course.training_seeds) if seed not in seen)
    return tuple(islice(unseen, course.seeds_per_round if amount is None else amount))


def held_seeds(views: Views, site: str) -> frozenset[int]:
    """The seeds at which a benchmark of a site holds any task: a sweep has the same seeds for all of its tasks."""
    instances = benchmark_instances(views.find(BENCHMARKS).values())
    return frozenset(seed for environment, _task, seed in instances if environment == site)


def unended(views: Views, specs_: Sequence[Spec], prefix: str) -> tuple[Spec, ...]:
    """The specs whose run has not ended, in order."""
    done = ended(views, prefix)
    return tuple(spec for spec in specs_ if spec.spec_id not in done)


def ended(views: Views, prefix: str) -> frozenset[str]:
    """The runs under a prefix that have ended."""
    runs: dict[str, RunState] = views.find(RUNS, prefix)
    return frozenset(key for key, state in runs.items() if state.is_ended)


def champion(views: Views) -> ChampionState:
    """The present champion; the controller sees to it that there is one."""
    return known(views.get(CHAMPIONS, CHAMPION))


def prices(views: Views) -> PriceBook:
    """The price book in force."""
    return known(known(views.get(COSTS, PRICES)).book)


def benchmark_name(site: str) -> str:
    """The first benchmark that the controller judges a site's challengers on."""
    return f"{site}-1"


def present_benchmark(views: Views, site: str) -> BenchmarkFrozen:
    """The benchmark that challengers are judged on now: the first one of the site, or its newest successor.

    Raises FactMissing.
    """
    benchmarks = views.find(BENCHMARKS)
    return known(benchmarks.get(newest(benchmarks, benchmark_name(site)))).frozen()


def too_small(benchmark: BenchmarkFrozen, rules: Rules) -> str:
    """Why a benchmark can only void under these rules."""
    return f"{sealed_instances(benchmark)} sealed instances, and the rules ask for {rules.min_pairs}"


def describe(change: Mapping[str, Any]) -> str:
    """What a change does, in words."""
    match change["kind"]:
        case "follow_link":
            return f"open {change['page']} and follow “{change['label']}”"
        case "replace_url":
            return f"open {change['url']}"
        case "prefer_target":
            then = "".join(f", then “{label}”" for label in change.get("then", ()))
            return f"go for “{change['label']}”{then}"
        case "edit_step":
            return f"instead {_step_in_words(change['step'])}"
        case _:
            steps = ", then ".join(_step_in_words(step) for step in change["steps"])
            return f"{change['where']} it {steps}"


def _step_in_words(step: Mapping[str, Any]) -> str:
    target = step.get("label") or step.get("url") or step["intent"]
    value = "" if step.get("value") is None else f" = {step['value']}"
    return f"{step['type'].replace('_', ' ')} “{target}”{value}"


def _empty() -> str:
    return forget_everything(BASE)[0].memory.digest


def known(value: T | None) -> T:
    """A fact the controller appended before. Raises FactMissing."""
    if value is None:
        raise FactMissing(actual="a champion, prices, a benchmark or an evaluation")
    return value
