"""Play planned sweeps, and learn from those that have ended."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from agents.envs.environment import Environment
from agents.executors.by_weights import refuse_unserved
from agents.executors.executor import Executor
from agents.learning.trial_results import Outcomes, credits_of
from agents.rollouts.play import PLAN
from eventlog.events import SweepEnded, SweepPlanned
from eventlog.store import Append
from projections.contamination import contaminated_runs
from projections.memories import candidacies
from projections.rewards import REWARDS
from projections.runs import RUNS, is_advised

from ..course import CONTROLLER, Course
from ..environments.suites import operations_on
from ..history.disown import refuse_forged
from ..house import House
from ..locks import learning_alone
from ..queries.runs import pending_specs
from ..queries.sweeps import plans_of, whole_sweep
from ..reporter import Reporter
from .allocate import credit_choices
from .capture import capture_from
from .evolve import evolve_instruction
from .executors import options_of, refuse_other
from .jobs import jobs_of, play_jobs
from .lessons import lessons_from
from .reflect import reflect_on
from .skills import skills_from


def play_sweep(
    house: House,
    client: Environment,
    sweep: SweepPlanned,
    course: Course,
    reporter: Reporter,
    executor: Executor = PLAN,
) -> None:
    """Play the pending runs of a sweep, credit its trials, and capture new pieces.

    Raises OtherExecutor, BlobMissing, ForgedEvents, and what refuse_unserved raises.
    """
    refuse_other(executor, sweep, f"Use {options_of(sweep)}.")
    refuse_unserved(executor, (sweep.artifact,))
    views = house.views()
    jobs = jobs_of(house, views, sweep, pending_specs(views, sweep.specs, f"{sweep.sweep}__"))
    title = f"sweep {sweep.sweep} with artifact {sweep.artifact}"
    operations = operations_on(house, sweep.environment, sweep.suite)
    play_jobs(house, client, title, jobs, course, reporter, executor, operations)
    learn_from(house, sweep, course, tell=reporter.say)


def tell_nobody(_line: str) -> None:
    """Report nothing."""


def learn_from(
    house: House,
    sweep: SweepPlanned,
    course: Course,
    *,
    brings_back: bool = True,
    tell: Callable[[str], None] = tell_nobody,
) -> None:
    """Credit the trials of an ended sweep, capture new pieces, and record that this is done. Idempotent.

    `tell` is called with what a recovery model failed in.

    Raises BlobMissing, and ForgedEvents before anything that a forged event could mislead.
    """
    with learning_alone(house.engine, sweep.environment):
        refuse_forged(house.views())
        credit(house, sweep)
        if pending_specs(house.views(), sweep.specs, f"{sweep.sweep}__"):
            return
        if sweep.learns:
            is_told = is_advised(sweep.executor)
            capture = lessons_from if is_told else capture_from
            capture(house, sweep, course.rule, course.kinds, brings_back=brings_back)
            if is_told:
                skills_from(house, sweep, course.rule, course.kinds, brings_back=brings_back)
                reflect_on(house, sweep, course, tell, brings_back=brings_back)
                evolve_instruction(house, sweep, course, tell, brings_back=brings_back)
        _end(house, sweep)


def _end(house: House, sweep: SweepPlanned) -> None:
    """Append that a sweep has ended, if no run of any of its plans is pending.

    A sweep that is extended meanwhile stays open. Raises ForgedEvents.
    """
    views, stream = house.views(), f"sweep/{sweep.sweep}"
    refuse_forged(views)
    version = max((each.version for each in house.store.read(stream=stream, upto=views.upto)), default=0)
    whole = whole_sweep(plans_of(house.store, views, sweep.sweep))
    if whole is None or pending_specs(views, whole.specs, f"{sweep.sweep}__"):
        return
    runs = len(whole.specs)
    event = SweepEnded(sweep=sweep.sweep, environment=sweep.environment, runs=runs)
    key = f"sweep-ended:{sweep.sweep}:{runs}"
    house.store.append([Append(stream, (event,), CONTROLLER, expect=version, key=key)])


def make_up(house: House, sweeps: Iterable[SweepPlanned], course: Course) -> None:
    """Learn from ended sweeps whose player did not, because it was killed or was one of several workers.

    Given-up pieces are not brought back here, because an ended course may have left them so on purpose.

    Raises BlobMissing, ForgedEvents.
    """
    for sweep in sweeps:
        learn_from(house, sweep, course, brings_back=False)


def credit(house: House, sweep: SweepPlanned) -> None:
    """Credit the trials of an ended sweep, in order. An open sweep is skipped, to keep that order."""
    views, prefix = house.views(), f"{sweep.sweep}__"
    if pending_specs(views, sweep.specs, prefix):
        return
    outcomes = Outcomes(views.find(RUNS, prefix), views.find(REWARDS, prefix), contaminated_runs(views, prefix))
    house.store.append(credits_of(sweep.specs, outcomes, candidacies(views), CONTROLLER))
    credit_choices(house, sweep)
