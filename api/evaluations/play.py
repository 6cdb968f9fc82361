"""Plays the arms of an evaluation: in looks, in blocks or all at once, what was lost again, and what looked worse."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from agents.envs.environment import Environment
from agents.executors.executor import Executor
from agents.rollouts.record import interrupt
from agents.suites.tasks import Operations
from eventlog.events import BenchmarkFrozen, Rules
from gate.benchmark import PlannedArmRun, blocks, confirming_specs, most_confirming_runs, most_runs, replay_specs, specs
from gate.eprocess import stopped_at
from gate.figures import count_noun
from gate.judge import to_confirm
from gate.ledger import record_look
from gate.live import describe_look
from gate.sequential import list_looks, look_at, stages
from gate.units import order
from projections.engine.views import Views
from projections.runs import RUNS
from projections.verdicts import VerdictState

from ..course import CONTROLLER, Course
from ..house import House
from ..queries.runs import ended_runs
from ..reporter import Reporter
from ..sweeps.jobs import play_jobs
from .arms import Sides, jobs_of_arms, sides

BLOCK = 10
"""Sealed instances played between two checks of an e-process."""


@dataclass(frozen=True, slots=True)
class Match:
    """Two arms that play an evaluation on a site, by one executor; steps are checked by these operations."""

    house: House
    client: Environment
    state: VerdictState
    benchmark: BenchmarkFrozen
    course: Course
    reporter: Reporter
    executor: Executor
    operations: Operations

    @property
    def rules(self) -> Rules:
        """Rules under which the evaluation was opened."""
        return self.state.opening_rules()

    def compare(self, views: Views) -> Sides:
        """Both arms as played so far, and what they are judged by."""
        return sides(views, self.state, self.benchmark)


def play_arms(arms: Match) -> None:
    """Play both arms as far as the test needs, then extra repeats of what looked worse. Resumes from the log.

    The caller must hold the site's lock, because a run that was started and has not ended was interrupted.
    """
    if arms.rules.replays:
        _record_interrupted(arms)
    benchmark, evaluation = arms.benchmark, arms.state.evaluation
    match arms.rules.test:
        case "group_sequential":
            _play_looks(arms)
        case "e_process":
            _play_blocks(arms)
        case _:
            _play(arms, f"both arms on {benchmark.benchmark}", specs(benchmark, evaluation))
    _play_again(arms)


def _play(arms: Match, title: str, places: Sequence[PlannedArmRun]) -> None:
    """Play runs that have not ended, and lost ones again as often as the rules allow.

    Where rules have replays each of them is one try, so that every try is a run in the log. Older rules try a run
    several times before it is lost.
    """
    name = f"{arms.state.evaluation}: {title}"
    course = replace(arms.course, tries=1) if arms.rules.replays else arms.course
    jobs = jobs_of_arms(arms.house, arms.benchmark, arms.state, places)
    while True:
        play_jobs(arms.house, arms.client, name, jobs, course, arms.reporter, arms.executor, arms.operations)
        champion, challenger, _, rules, _ = arms.compare(arms.house.views())
        again, name = replay_specs(places, champion, challenger, rules), f"{name}, lost runs again"
        jobs = jobs_of_arms(arms.house, arms.benchmark, arms.state, again)
        if not jobs:
            return


def _record_interrupted(arms: Match) -> None:
    """Record runs that a process left unfinished as missing, so that the next try of each is a run of its own."""
    for key, run in arms.house.views().find(RUNS, f"{arms.state.evaluation}__").items():
        if not run.is_ended:
            interrupt(key, run.group, arms.house.store)


def _play_looks(arms: Match) -> None:
    """Play the instances of each look, then look, until one look settles the test."""
    benchmark, evaluation = arms.benchmark, arms.state.evaluation
    planned, most = stages(benchmark, arms.rules), most_runs(benchmark)
    most_again = most_confirming_runs(benchmark, arms.rules)
    tasks = [task for task in benchmark.tasks if not task.is_sealed]
    for number, new in enumerate(planned, start=1):
        tasks += new
        title = f"both arms on {benchmark.benchmark}, look {number} of {len(planned)}"
        _play(arms, title, specs(benchmark, evaluation, [*tasks] if number == 1 else new))
        compared = arms.compare(arms.house.views())
        path = look_at(*compared, most=number)
        if path.voids or path.last is None or compared[0].contaminated or compared[1].contaminated:
            return
        look, runs = list_looks(path)[-1], 2 * len(tasks) * benchmark.repeats
        record_look(arms.house.store, evaluation, benchmark.benchmark, look, runs, most, CONTROLLER)
        arms.reporter.say(f"{evaluation}: {describe_look(look, runs, most, most_again)}")
        if path.last.outcome != "continue":
            return


def _play_blocks(arms: Match) -> None:
    benchmark, evaluation = arms.benchmark, arms.state.evaluation
    parts = blocks(benchmark, evaluation, order(benchmark, arms.rules), BLOCK)
    for number, part in enumerate(parts, start=1):
        if number > 1 and _is_stopped(arms, part):
            return
        _play(arms, f"both arms on {benchmark.benchmark}, block {number} of {len(parts)}", part)


def _is_stopped(arms: Match, following: Sequence[PlannedArmRun]) -> bool:
    """True if the test stopped before the following block; a started block is always finished."""
    views = arms.house.views()
    begun = ended_runs(views, f"{arms.state.evaluation}__")
    is_begun = not begun.isdisjoint(place.spec.spec_id for place in following)
    return not is_begun and stopped_at(*arms.compare(views)) is not None


def _play_again(arms: Match) -> None:
    """Play what looked worse again, while a further repeat can change the decision."""
    before: Sequence[tuple[str, int, range]] = ()
    while (instances := to_confirm(*arms.compare(arms.house.views()))) and instances != before:
        title = f"{count_noun(len(instances), 'instance')} that looked worse, again in both arms"
        _play(arms, title, confirming_specs(arms.benchmark, arms.state.evaluation, instances))
        before = instances
