"""Play jobs in parallel with a progress bar; each run is recorded when it ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from agents.envs.environment import Environment
from agents.executors.demonstration import Demonstrator
from agents.executors.executor import Advised, Executor
from agents.executors.policy import wording_budget
from agents.learning.advice import tell_trial
from agents.learning.applied_words import applied_advice
from agents.learning.memory import content_reader, load_piece, pieces_from
from agents.learning.occasions import AnyPiece, OccasionPiece
from agents.rollouts.dispatching.dispatch import Call, Dispatch, Outcome
from agents.rollouts.dispatching.profiles import ProfileScope, TableKeeper, hold_profile
from agents.rollouts.dispatching.state_keys import StateKey
from agents.rollouts.errors import StartedOtherwise
from agents.rollouts.play import PLAN, Job, Means, Played
from agents.rollouts.record import abandon, rollout, stopwatch
from agents.suites.tasks import NO_OPERATIONS, Operations
from eventlog.blobs.postgres import without_flush
from eventlog.events import Artifact, RunMissing, Spec, SweepPlanned
from projections.candidacy import may_return
from projections.engine.views import Views
from projections.memories import candidacies
from projections.runs import DEMONSTRATION, PLANLESS

from ..course import Course
from ..environments.suites import operations_on
from ..errors import SessionNotKept
from ..house import House
from ..queries.costs import present_prices
from ..queries.courses import pieces_retired_in_course
from ..queries.facts import require
from ..queries.predictions import PREFIX
from ..reporter import Reporter
from .advisor import advisor_of
from .executors import inspector_of
from .missing import describe_missing, group_missing
from .step_checks import watching_of


def pieces_of(house: House, artifact: Artifact) -> tuple[AnyPiece, ...]:
    """Pieces of an artifact's memory without erased ones. Raises BlobMissing, and what House.embeddings_of raises."""
    content = house.blobs.get(artifact.memory.digest).body
    return pieces_from(content, content_reader(house.blobs), house.embeddings_of(artifact.memory))


def jobs_of(house: House, views: Views, sweep: SweepPlanned, specs: Sequence[Spec]) -> list[Job]:
    """Jobs for some specs of a sweep, each with everything that its run needs.

    Raises BlobMissing, FactMissing, and what House.embeddings_of raises.
    """
    by_id = {template.template_id: template for template in sweep.templates}
    pieces = pieces_of(house, sweep.artifact)
    states, read = candidacies(views), content_reader(house.blobs)
    model = house.embeddings_of(sweep.artifact.memory)
    returning = returning_now(views, sweep.environment) if sweep.learns else frozenset()
    return [
        Job(
            spec=spec,
            template=by_id[spec.template],
            environment=sweep.environment,
            artifact=sweep.artifact,
            pieces=tuple(piece for piece in pieces if piece.piece != spec.withheld),
            candidate=None if spec.candidate is None else load_piece(require(states.get(spec.candidate)), read, model),
            arm=None,
            learns=sweep.learns,
            returning=returning,
            known=frozenset(states),
            withheld=next((piece for piece in pieces if piece.piece == spec.withheld), None),
            tells=sweep.tells,
        )
        for spec in specs
    ]


def returning_now(views: Views, site: str) -> frozenset[str]:
    """Given-up pieces that a new proposal makes candidates again; not those given up in the current course."""
    return may_return(candidacies(views), datetime.now(UTC)) - pieces_retired_in_course(views, site)


def refuse_session_not_kept(state_key: str | None, executor: Executor) -> None:
    """Raise SessionNotKept for a session with an executor that keeps no browser profile."""
    if state_key is not None and executor.name in {*PLANLESS, DEMONSTRATION}:
        raise SessionNotKept(actual=state_key, executor=executor.name)


def play_jobs(
    house: House,
    client: Environment,
    title: str,
    jobs: Sequence[Job],
    course: Course,
    reporter: Reporter,
    executor: Executor = PLAN,
    operations: Operations | None = None,
) -> None:
    """Play every job, at current prices. The first error is raised after all jobs have ended.

    Steps are checked by these `operations` (None: those of the site's suite).

    The caller must hold the site's lock, because a run started earlier with another plan is recorded as missing.
    Raises SessionNotKept, NoJudge, and what advisor_of raises, before any job is played.
    """
    for job in jobs:
        refuse_session_not_kept(job.spec.state_key, executor)
    site = next((job.environment for job in jobs), "")
    if operations is None or not course.verify_steps:
        operations = operations_on(house, site) if course.verify_steps else NO_OPERATIONS
    learns = any(job.learns for job in jobs) and executor.name not in PLANLESS
    with (
        watching_of(house.settings, client, operations, verify_steps=course.verify_steps) as watch,
        advisor_of(house.settings, reporter.say, timeout_s=course.timeout_s, is_asked=learns) as advisor,
    ):
        means = Means(
            client,
            present_prices(house.views()),
            course.rule,
            stopwatch,
            executor,
            watch,
            course.tries,
            inspector_of(executor),
            advisor=advisor,
            operations=operations,
            looks_for_hints="hint" in course.kinds,
        )
        _dispatch(house, means, title, jobs, course, reporter)


def _dispatch(house: House, means: Means, title: str, jobs: Sequence[Job], course: Course, reporter: Reporter) -> None:
    calls = [Call(job, job.spec.state_key, session=job.spec.state_key is not None) for job in jobs]
    errors: list[BaseException] = []
    missing: list[RunMissing | None] = []
    with reporter.phase(title, len(jobs)) as advance:
        for outcome in _outcomes(calls, lambda job, state: _play_alone(house, means, job, state), course):
            if outcome.error is not None:
                errors.append(outcome.error)
            if outcome.ending == "timed_out":
                why = took_longer(require(course.timeout_s))
                missing.append(give_up(house, outcome.call.work, means.executor, why))
            else:
                missing.append(outcome.result)
            advance()
    for line in describe_missing(group_missing(each for each in missing if each is not None)):
        reporter.say(line)
    if errors:
        raise errors[0]


def _outcomes(
    calls: Sequence[Call[Job]], work: Callable[[Job, StateKey], RunMissing | None], course: Course
) -> Iterator[Outcome[Job, RunMissing | None]]:
    """Outcome of each call. Timed-out runs of an evaluation are retried where the course has further tries."""
    for tries_left in reversed(range(course.tries)):
        late = []
        dispatch = Dispatch(calls, work, max_parallel=course.max_parallel, timeout_s=course.timeout_s)
        for outcome in dispatch.outcomes():
            if tries_left and outcome.ending == "timed_out" and outcome.call.work.arm is not None:
                late.append(outcome.call)
            else:
                yield outcome
        if not late:
            return
        calls = late


def _play_alone(house: House, means: Means, job: Job, state: StateKey) -> RunMissing | None:
    """Play one job. Returns its end if it is missing."""
    try:
        played = play_one(house, means, job, state)
    except StartedOtherwise as error:
        return give_up(house, job, means.executor, str(error))
    last = played.events[-1]
    return last if played.stands and isinstance(last, RunMissing) else None


def play_one(house: House, means: Means, job: Job, state: StateKey) -> Played:
    """Play and record one job with the browser profile of its session.

    Raises SessionNotKept, StartedOtherwise, KeyTaken.
    """
    refuse_session_not_kept(job.spec.state_key, means.executor)
    job = _with_memory(job, means.executor)
    sweep = PREFIX if job.spec.sweep.startswith(PREFIX) else job.spec.sweep  # predictions share their sessions
    place = ProfileScope(job.environment, sweep, means.executor.name)
    with hold_profile(TableKeeper(house.engine), state, place) as holding:
        played = rollout(job, house.store, without_flush(house.blobs), means, holding.profile)
        if played.stands:
            holding.profile = played.profile or holding.profile
        return played


def give_up(house: House, job: Job, executor: Executor, why: str) -> RunMissing | None:
    """Record an abandoned run as missing. Returns its end, None if the run had ended before. Raises KeyTaken."""
    return abandon(_with_memory(job, executor), house.store, house.blobs, executor.name, why)


def took_longer(timeout_s: float) -> str:
    """Reason recorded for a run that timed out."""
    return f"it took longer than {timeout_s:g} s"


def _with_memory(job: Job, executor: Executor) -> Job:
    """The job with the memory that its executor uses: a planless executor applies none, an advised one is told some.

    A demonstration applies it and, if its sweep tells, says so.
    """
    if job.tells and isinstance(executor, Demonstrator):
        budget = wording_budget(executor.wording)
        return replace(job, said=applied_advice(job.environment, job.template, job.pieces, budget))
    if executor.name not in PLANLESS:
        return job
    told: tuple[OccasionPiece, ...] = ()
    if isinstance(executor, Advised):
        trial = {"candidate": job.candidate, "withheld": job.withheld}
        told = tell_trial(job.template, job.environment, job.pieces, executor.audience, **trial)
    return replace(job, pieces=(), candidate=None, told=told)
