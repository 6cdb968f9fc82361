"""Open, resume and close a course in the log, and compute how much of its budget is spent."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from agents.rollouts.play import PLAN
from eventlog.chain import microseconds
from eventlog.disowned import read_in_force
from eventlog.events import Budget, CourseClosed, CourseLoop, CourseOpened, SweepPlanned, VerdictReached
from eventlog.store import START, Append, EventStore, Position
from gate.figures import count_noun, dollars
from projections.courses import CourseState
from projections.engine.views import Views
from projections.rewards import REWARDS
from projections.runs import RUNS

from ..course import CONTROLLER, Course
from ..course import SLOW_CONTROLLER as SLOW
from ..queries.courses import last_course, present_course
from ..queries.sweeps import sweeps_on
from ..sweeps.recovery_costs import known_sum, recovery_costs
from .fast_next import fast_evaluations
from .slow_next import SlowCourse

_MICRO = 1_000_000
_MINUTE = 60 * _MICRO
_ACTORS: Final[Mapping[CourseLoop, str]] = {"fast": CONTROLLER, "slow": SLOW}
_NAMES: Final[Mapping[CourseLoop, str]] = {"fast": "course", "slow": "slow-course"}


@dataclass(frozen=True, slots=True)
class Spent:
    """Resources used by a course: rounds, ended runs, micro-dollars, microseconds since it was opened, verdicts.

    `micro_dollars` sums the known costs. `unpriced` counts ended runs with an unknown cost, their own or that of
    recovery's model calls. `void` names the evaluation decided last if its verdict is void.
    """

    rounds: int = 0
    runs: int = 0
    micro_dollars: int = 0
    microseconds: int = 0
    verdicts: int = 0
    unpriced: int = 0
    void: str | None = None


@dataclass(frozen=True, slots=True)
class RunSums:
    """Of the ended runs of one sweep or evaluation: how many, their known costs, and how many have an unknown one."""

    runs: int
    micro_dollars: int
    unpriced: int


@dataclass
class CourseBooks:
    """What a controller has read of its course, so that a decision reads what is new and the runs of what is open.

    A sweep or evaluation that is over is summed once. All is read again for another course, and where events were
    disowned meanwhile.
    """

    basis: tuple[str, int, int] | None = None
    upto: Position = START
    sweeps: dict[str, None] = field(default_factory=dict)
    sums: dict[str, RunSums] = field(default_factory=dict)

    def read(self, store: EventStore, views: Views, state: CourseState) -> None:
        """Read the sweeps that were planned since the last time."""
        basis = (state.course, state.since, len(store.disowned_positions(views.upto)))
        if basis != self.basis:
            self.basis, self.upto, self.sweeps, self.sums = basis, Position(state.since), {}, {}
        if views.upto > self.upto:
            self.sweeps |= dict.fromkeys(_sweeps_of_course(store, self.upto, views.upto, state))
            self.upto = views.upto

    def sum_runs(self, views: Views, name: str, since: int, *, is_over: bool) -> RunSums:
        """The sums of a sweep or an evaluation; kept while it is over, because a sweep may be given more siblings."""
        kept = self.sums.pop(name, None)
        found = kept if kept is not None and is_over else sum_runs(views, name, since)
        if is_over:
            self.sums[name] = found
        return found


def budget_of(course: Course | SlowCourse) -> Budget:
    """The budget as recorded in CourseOpened. The slow loop's budget is its number of rounds."""
    if isinstance(course, SlowCourse):
        return Budget(rounds=course.max_rounds, runs=None, micro_dollars=None, minutes=None, verdicts=None)
    return Budget(
        rounds=course.max_rounds,
        runs=course.max_runs,
        micro_dollars=course.max_micro_dollars,
        minutes=course.max_minutes,
        verdicts=course.max_verdicts,
    )


def open_course(store: EventStore, views: Views, site: str, course: Course | SlowCourse) -> None:
    """Open a course, or resume the open one under the budget given now."""
    loop: CourseLoop = "slow" if isinstance(course, SlowCourse) else "fast"
    state, budget = last_course(views, site, loop), budget_of(course)
    if state is not None and state.is_open:
        if _budget_in(state) == budget:
            return
        name = state.course
    else:
        name = f"{site}-{_NAMES[loop]}-{1 if state is None else state.number + 1}"
    event = CourseOpened(course=name, environment=site, loop=loop, budget=budget)
    store.append([Append(course_stream(site), (event,), _ACTORS[loop])])


def reopen_course(store: EventStore, state: CourseState) -> None:
    """Open a course again that has ended. What it has spent still counts, so its budget is not given anew."""
    loop: CourseLoop = "slow" if state.loop == "slow" else "fast"
    event = CourseOpened(course=state.course, environment=state.environment, loop=loop, budget=_budget_in(state))
    store.append([Append(course_stream(state.environment), (event,), _ACTORS[loop])])


def close_course(store: EventStore, views: Views, site: str, why: str, loop: CourseLoop = "fast") -> None:
    """Close the open course of a loop, if there is one."""
    state = present_course(views, site, loop)
    if state is not None:
        event = CourseClosed(course=state.course, environment=site, loop=loop, why=why)
        # Where courses were disowned, a later one has the name that an earlier one had; one opened again ends again.
        again = f":{state.ended}" if state.ended else ""
        key = f"course-closed:{site}:{state.course}:{state.since}{again}"
        store.append([Append(course_stream(site), (event,), _ACTORS[loop], key=key)])


def compute_spent(
    store: EventStore,
    views: Views,
    site: str,
    now: datetime,
    executor: str = PLAN.name,
    books: CourseBooks | None = None,
) -> Spent:
    """Resources used by the open course, zero if there is none. Counts ended runs of every executor and process.

    Of the evaluations, those count that a fast loop with this `executor` may resume. `books` are those of the last
    time (None: there is none).
    """
    state = present_course(views, site)
    if state is None:
        return Spent()
    known = CourseBooks() if books is None else books
    known.read(store, views, state)
    of_site, still_open = fast_evaluations(views, site, executor), set(sweeps_on(views, site).open)
    is_over = {name: name not in still_open for name in known.sweeps}
    is_over |= {each.evaluation: not each.is_open for each in of_site if each.opened_since > state.since}
    sums = [known.sum_runs(views, name, state.since, is_over=over) for name, over in is_over.items()]
    reached = _verdicts_of_course(store, views.upto, state, {each.evaluation for each in of_site})
    return Spent(
        rounds=len(known.sweeps),
        runs=sum(each.runs for each in sums),
        micro_dollars=sum(each.micro_dollars for each in sums),
        microseconds=max(0, microseconds(now) - state.opened_at),
        verdicts=len(reached),
        unpriced=sum(each.unpriced for each in sums),
        void=next((each.evaluation for each in reached[-1:] if each.verdict.decision == "void"), None),
    )


def sum_runs(views: Views, name: str, since: int) -> RunSums:
    """The sums over the ended runs of a sweep or an evaluation, with what recovery asked after a position."""
    runs = [key for key, run in views.find(RUNS, f"{name}__").items() if run.is_ended]
    rewards = views.find(REWARDS, f"{name}__")
    costs = {key: reward.cost for key, reward in rewards.items() if reward.cost is not None}
    asked = recovery_costs(views, runs, since)
    return RunSums(
        runs=len(runs),
        micro_dollars=sum(costs.values()) + known_sum(asked),
        unpriced=sum(run not in costs or asked.get(run, 0) is None for run in runs),
    )


def used_up(course: Course, used: Spent) -> str | None:
    """Message saying which part of the budget is spent; None if every part has something left."""
    if course.max_runs is not None and used.runs >= course.max_runs:
        return f"the budget of {course.max_runs:,} runs is spent"
    if course.max_micro_dollars is not None and used.micro_dollars >= course.max_micro_dollars:
        return f"the budget of {dollars(course.max_micro_dollars)} is spent"
    if course.max_micro_dollars is not None and used.unpriced:
        return f"the cost of {count_noun(used.unpriced, 'run')} is not known"
    if course.max_minutes is not None and used.microseconds >= course.max_minutes * _MINUTE:
        return f"the budget of {course.max_minutes:,} minutes is spent"
    if course.max_verdicts is not None and used.verdicts >= course.max_verdicts:
        return f"the gate has reached {used.verdicts} of {course.max_verdicts} verdicts"
    return None


def dollars_left(course: Course, used: Spent) -> int | None:
    """Micro-dollars left in the budget; None if it has no limit."""
    return None if course.max_micro_dollars is None else max(0, course.max_micro_dollars - used.micro_dollars)


def seeds_within(course: Course, used: Spent, runs_a_seed: Callable[[], int]) -> int:
    """Number of seeds for the next round: the course's number, or fewer if the runs left do not suffice.

    `runs_a_seed` is asked only if the runs of the course are limited.
    """
    if course.max_runs is None:
        return course.seeds_per_round
    return min(course.seeds_per_round, max(0, course.max_runs - used.runs) // max(1, runs_a_seed()))


def _sweeps_of_course(store: EventStore, after: Position, upto: Position, state: CourseState) -> list[str]:
    """Names of the sweeps that the controller planned on the site of a course within these positions."""
    recorded = read_in_force(store, after=after, upto=upto, types=["SweepPlanned"])
    events = (each.event for each in recorded if each.actor == CONTROLLER)
    return [
        event.sweep for event in events if isinstance(event, SweepPlanned) and event.environment == state.environment
    ]


def _verdicts_of_course(
    store: EventStore, upto: Position, state: CourseState, evaluations: Collection[str]
) -> list[VerdictReached]:
    """The verdicts that the controller reached on these evaluations since the course was opened, in order."""
    recorded = read_in_force(store, after=Position(state.since), upto=upto, types=["VerdictReached"])
    events = (each.event for each in recorded if each.actor == CONTROLLER)
    return [event for event in events if isinstance(event, VerdictReached) and event.evaluation in evaluations]


def _budget_in(state: CourseState) -> Budget:
    return Budget(**{name: getattr(state, name) for name in Budget.model_fields})


def course_stream(site: str) -> str:
    """Stream of the courses of a site, and of the choices between its loops."""
    return f"course/{site}"
