"""Ended runs graded again from the end state that was recorded, by a verifier's version; the new grade stands beside.

Nothing is played and nobody is asked. The newest grade of a run is the one in force.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from agents.plans import plan_from
from agents.rewards import Conduct
from agents.rollouts.errors import CannotGrade
from agents.rollouts.regrade import (
    VERIFIERS,
    Verifier,
    conduct_recorded,
    instance_to_grade,
    regrade_run,
    reward_again,
    verifier,
)
from eventlog.blobs import BlobStore
from eventlog.errors import BlobErased, BlobMissing
from eventlog.events import RewardGraded, RunFinished, RunStarted, StepTaken
from eventlog.store import Append, EventStore, KeyReused, Position
from projections.contamination import is_contaminated
from projections.engine.views import PostgresViews, Views
from projections.rewards import REWARDS
from projections.runs import RUNS, RunState, is_agent
from projections.verdicts import VERDICTS

from ..house import House
from ..queries.runs import require_run
from ..queries.untold import find_confirming, find_hidden

ACTOR: Final = "operator"

Outcome = Literal["graded", "already", "not_ended", "missing", "contaminated", "undecided", "erased", "failed"]
"""already: this verifier's grade is in force. undecided: its evaluation has no verdict yet, and both arms need the same
verifier. erased: its end state was erased. failed: it cannot be graded again, and `reason` says why."""


@dataclass(frozen=True, slots=True)
class Regrade:
    """Result of grading one run again: the grade in force and the one before, in millionths."""

    run: str
    outcome: Outcome
    passed: bool | None = None
    score: int | None = None
    before_passed: bool | None = None
    before_score: int | None = None
    reason: str = ""


def regrade_runs(
    house: House,
    version: str,
    runs: Sequence[str],
    *,
    known: Mapping[str, Verifier] = VERIFIERS,
    advance: Callable[[], None] = lambda: None,
) -> tuple[Regrade, ...]:
    """Grade runs again, each once, and append each new grade. Results are in the order given.

    Idempotent. A run that cannot be graded does not affect the others. Raises UnknownVerifier, and Unknown for an
    unknown run, before anything is written.
    """
    grade, views = verifier(version, known), house.views()
    named = [require_run(views, run) for run in dict.fromkeys(runs)]
    found = []
    for state in named:
        found.append(_regrade(house, views, state, version, grade))
        advance()
    return tuple(found)


def tell_regrades(views: Views, found: Sequence[Regrade]) -> tuple[Regrade, ...]:
    """These results, without grades of sealed runs whose benchmark can judge, and without their confirming repeats."""
    runs = views.pick(RUNS, [each.run for each in found])
    hidden = find_hidden(views, runs.values())
    confirming = find_confirming(views, runs, hidden)
    return tuple(
        replace(each, passed=None, score=None, before_passed=None, before_score=None) if each.run in hidden else each
        for each in found
        if each.run not in confirming
    )


def _regrade(house: House, views: PostgresViews, run: RunState, version: str, grade: Verifier) -> Regrade:
    refused = _refuse(views, run)
    if refused is not None:
        return refused
    reward = views.get(REWARDS, run.run)
    if reward is None:
        return Regrade(run.run, "failed", reason="it has no grade yet")
    if reward.version == version:
        return Regrade(run.run, "already", reward.passed, reward.score, reward.passed, reward.score)
    try:
        event = _grade(house, run.run, version, grade)
    except BlobErased as error:
        return Regrade(run.run, "erased", reason=f"its end state {error.facts['actual']} was erased with its subject")
    except (CannotGrade, BlobMissing) as error:
        return Regrade(run.run, "failed", reason=str(error))
    key = f"regrade:{run.run}:{version}:{reward.since}"
    request = Append(f"run/{run.run}", (event,), ACTOR, key=key, cause=Position(reward.since))
    (outcome,) = house.store.append([request])
    if isinstance(outcome, KeyReused):
        return Regrade(
            run.run, "failed", reason=f"another process recorded a different grade by {version}, at {outcome.first}"
        )
    return Regrade(run.run, "graded", event.passed, event.score, reward.passed, reward.score)


def _refuse(views: Views, run: RunState) -> Regrade | None:
    """Result for a run that must not be graded again; None if it may be."""
    if not run.is_ended:
        return Regrade(run.run, "not_ended", reason="it has not ended yet")
    if run.status == "missing":
        return Regrade(run.run, "missing", reason=f"it was not played: {run.missing_reason}")
    if is_contaminated(views, run):
        return Regrade(run.run, "contaminated", reason="it began from another state than its siblings")
    opened = None if run.evaluation is None else views.get(VERDICTS, run.evaluation)
    if opened is not None and opened.decision is None:
        return Regrade(run.run, "undecided", reason=f"{run.evaluation} has no verdict yet")
    return None


def _grade(house: House, run: str, version: str, grade: Verifier) -> RewardGraded:
    """Compute the reward by another verifier. Raises CannotGrade, BlobErased, BlobMissing."""
    events = [item.event for item in house.store.read(stream=f"run/{run}")]
    started = next((event for event in events if isinstance(event, RunStarted)), None)
    finished = next((event for event in events if isinstance(event, RunFinished)), None)
    before = [event for event in events if isinstance(event, RewardGraded)]
    if started is None or finished is None:
        raise CannotGrade(run=run, actual="its start or its end is not in its stream")
    end_state = house.blobs.get(finished.end_state).body
    said = regrade_run(started, instance_to_grade(started, finished, end_state, before[0]), grade)
    return reward_again(before[-1], said, version, conduct_in(house.store, house.blobs, started, finished))


def conduct_in(store: EventStore, blobs: BlobStore, started: RunStarted, finished: RunFinished) -> Conduct | None:
    """Conduct of a run, computed from its stream and plan; None if the plan's bytes are gone.

    None for the run of an agent from outside, too: only the agent itself says what it did.
    """
    if is_agent(started.executor):
        return None
    try:
        plan = plan_from(blobs.get(started.plan).body)
    except (BlobErased, BlobMissing):
        return None
    events = (item.event for item in store.read(stream=f"run/{started.run}", types=("StepTaken",)))
    steps = [event for event in events if isinstance(event, StepTaken)]
    return conduct_recorded(started, steps, finished, plan)


def ended_runs_of(views: Views, sweep: str | None) -> list[str]:
    """Ids of ended runs that are not missing, of a sweep or evaluation, or of all (None)."""
    prefix = "" if sweep is None else f"{sweep}__"
    return [run for run, state in views.find(RUNS, prefix).items() if state.is_ended and state.status != "missing"]
