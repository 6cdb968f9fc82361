"""Decide the next step of the fast loop from the log alone, so that a killed controller resumes where it stopped."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from agents.executors.by_weights import plays_weights
from agents.executors.executor import Executor
from agents.learning.memory import build_memory_artifact, forget_everything
from agents.rollouts.play import PLAN
from eventlog.events import Artifact, SweepPlanned
from gate.figures import count_noun
from gate.renewal import missing_tasks
from projections.engine.views import Views
from projections.evaluations import EvaluationEntry
from projections.memories import candidacies
from projections.rewards import REWARDS
from projections.runs import ADVISED, PLANLESS, is_agent

from ..course import BASE, Course
from ..queries.benchmarks import benchmark_seeds, evaluations_of, present_benchmark, why_renew
from ..queries.champion import present_champion
from ..queries.runs import pending_specs
from ..queries.sweeps import sweeps_on
from ..sweeps.executors import plays, recorded_as, recorded_name
from ..sweeps.missing import is_in_vain
from ..sweeps.seeds import fresh_seeds
from .slow_next import slow_benchmarks

FLOOR = 1
"""Instances that each task gets in every round, because a task that is not played is never seen to pass."""

FRUITLESS = 2
"""Number of rounds after which the course stops if the last one used current memory and nothing is on trial."""


@dataclass(frozen=True, slots=True)
class Next:
    """The next step and the reason for it. A stop `is_in_vain` if every run of the last round is missing."""

    what: Literal["play_sweep", "plan_sweep", "play_arms", "open_evaluation", "renew_benchmark", "stop"]
    why: str
    sweep: SweepPlanned | None = None
    evaluation: str | None = None
    is_in_vain: bool = False


def decide(
    views: Views,
    sweeps: Sequence[SweepPlanned],
    *,
    rounds: int,
    course: Course,
    site: str,
    on_trial: Collection[str],
    last: SweepPlanned | None = None,
    executor: Executor = PLAN,
    now: datetime | None = None,
    void: str | None = None,
    is_concerned: bool = True,
    scoped: Callable[[], Artifact] | None = None,
) -> Next:
    """Decide the next step: finish what was begun, then send new memory to the gate, then play another round.

    `sweeps` are those that are not known to have ended.
    Sweeps planned for another executor are skipped, and so are evaluations of the slow loop (see `fast_evaluations`).
    Only `last` (see `last_round`) tells whether there is something to improve. Pieces that are cold at `now` enter no
    challenger. `on_trial` names the candidates for which a round could still bring evidence. If the course's last
    verdict was `void`, the course ends, because the arms could not be compared. If the new memory changes no run of
    this site (not `is_concerned`), this site does not judge it. `scoped` builds the challenger that this site may judge
    (None: the whole memory). A course whose last round brought only missing runs
    ends, because the next round would end alike.
    """
    if void is not None:
        return Next("stop", f"{void} was decided: void")
    begun = _resume_begun(views, sweeps, site, executor)
    if begun is not None:
        return begun
    if rounds and last is not None and is_in_vain(views, last):
        return Next("stop", f"every run of {last.sweep} is missing", last, is_in_vain=True)
    present = present_champion(views).pointed_artifact()
    challenger, _blob = build_memory_artifact(views, present.weights, now=now, kinds=course.kinds)
    empty, _blob = forget_everything(BASE)
    judged = {*_judged_memories(views, site, executor, present.weights), present.memory.digest, empty.memory.digest}
    if is_concerned and challenger.memory.digest not in judged and _is_new(scoped, judged):
        return _judge_next(views, site, course)
    told = last if last is not None and is_played_with(last, challenger, executor) else None
    if told is not None and _is_clean(views, told):
        return Next("stop", f"every run of {told.sweep} without a piece on trial passed: nothing to improve")
    why = _why_fruitless(course, rounds, told, on_trial)
    if why is not None:
        return Next("stop", f"{why}{_aside(views)}")
    if not fresh_seeds(sweeps_on(views, site), course, held=benchmark_seeds(views, site)):
        return Next("stop", f"all {course.training_seeds} training seeds were used, or are reserved by a benchmark")
    return Next("plan_sweep", "there are failures to learn from")


def _is_new(scoped: Callable[[], Artifact] | None, judged: Collection[str]) -> bool:
    """True if this site has not judged the challenger that it may judge."""
    return scoped is None or scoped().memory.digest not in judged


def _why_fruitless(course: Course, rounds: int, told: SweepPlanned | None, on_trial: Collection[str]) -> str | None:
    """Why another round would not help; None if it may. `told` is the last round if a further one plays as it did."""
    if rounds >= course.max_rounds:
        return f"the gate has judged everything that {count_noun(rounds, 'round')} found"
    if rounds >= FRUITLESS and told is not None and not on_trial:
        return f"runs of {told.sweep} still fail, and no proposal is left to try"
    return None


def _resume_begun(views: Views, sweeps: Sequence[SweepPlanned], site: str, executor: Executor) -> Next | None:
    """The unfinished sweep or evaluation of the site; None if there is none."""
    for sweep in sweeps:
        if plays(executor, sweep) and pending_specs(views, sweep.specs, f"{sweep.sweep}__"):
            return Next("play_sweep", "a sweep was planned and has not ended", sweep=sweep)
    name, model = recorded_name(executor), recorded_as(executor)[1]
    own = fast_evaluations(views, site, name)
    begun = [each.evaluation for each in own if each.is_open and each.model in {None, model}]
    if not begun:
        return None
    first = min(begun, key=str.encode)
    return Next("play_arms", "an evaluation was opened and has no verdict", evaluation=first)


def fast_evaluations(views: Views, site: str, executor: str) -> tuple[EvaluationEntry, ...]:
    """Evaluations of memory on a site that a fast loop with this executor may resume and counts.

    Evaluations of policies are the slow loop's, except those of an executor that is told memory on the fast loop's own
    benchmarks. Those of an agent from outside are resumed by the same agent alone.
    """
    own = evaluations_of(views, site)
    if is_agent(executor):
        return tuple(each for each in own if each.executor == executor)
    if executor not in ADVISED:
        return tuple(each for each in own if each.executor not in PLANLESS and not is_agent(each.executor))
    slow = slow_benchmarks(views, site)
    return tuple(each for each in own if each.executor == executor and each.benchmark not in slow)


def _judged_memories(views: Views, site: str, executor: Executor, weights: str) -> Iterator[str]:
    """Digests of the memories judged on a site. Void verdicts do not count.

    What was judged with an agent from outside says nothing of another agent, or of plans, and the other way round.
    What was judged with another model says nothing either, nor what was with other weights where these play.
    """
    own, name = evaluations_of(views, site), recorded_name(executor)
    is_ours = {each.evaluation for each in own if not is_agent(each.executor)}
    if is_agent(name):
        is_ours = {each.evaluation for each in own if each.executor == name}
    if plays_weights(executor):
        is_ours &= {each.evaluation for each in own if each.weights == weights}
    if name in ADVISED:
        model = recorded_as(executor)[1]
        is_ours -= {each.evaluation for each in own if each.executor == name and each.model not in {None, model}}
    return (each.memory for each in own if each.decision != "void" and each.evaluation in is_ours)


def _judge_next(views: Views, site: str, course: Course) -> Next:
    """Open an evaluation, or renew the benchmark first if it has no alpha left or too few instances."""
    why = why_renew(views, present_benchmark(views, site), course.rules)
    if why is not None:
        return Next("renew_benchmark", why)
    return Next("open_evaluation", "memory holds something that no champion was judged with")


def cover_tasks(views: Views, site: str, step: Next, tasks: Iterable[str]) -> Next:
    """The step itself, or a renewal of the benchmark if it lacks any of the course's oracle tasks.

    The first course of a site froze a benchmark of its own tasks; a later course may have more.
    """
    present = present_benchmark(views, site)
    missing = missing_tasks(present, tasks)
    if not missing:
        return step
    return Next("renew_benchmark", f"{present.benchmark} lacks the tasks {', '.join(missing)}")


def _is_clean(views: Views, sweep: SweepPlanned) -> bool:
    """True if none of a sweep's runs without a trial piece failed, and each task passed once."""
    passed = {key for key, reward in views.find(REWARDS, f"{sweep.sweep}__").items() if reward.passed}
    failed = [spec for spec in sweep.specs if spec.is_plain and spec.spec_id not in passed]
    seen = {spec.template for spec in sweep.specs if spec.is_plain and spec.spec_id in passed}
    is_whole = seen.issuperset(each.template_id for each in sweep.templates)
    return not failed and is_whole


def is_played_with(sweep: SweepPlanned, present: Artifact, executor: Executor) -> bool:
    """True if a sweep used current memory, and current weights where the executor plays by them."""
    is_other = plays_weights(executor) and sweep.artifact.weights != present.weights
    return sweep.artifact.memory.digest == present.memory.digest and not is_other


def _aside(views: Views) -> str:
    quarantined = [key for key, state in candidacies(views).items() if state.status == "quarantined"]
    return f"; quarantined since a rollback: {', '.join(quarantined)}" if quarantined else ""
