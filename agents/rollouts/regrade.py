"""Grading again from what a run left: the end state that was recorded, and a verifier by its version. Pure.

The seed and the recorded changes make the instance again, so nothing is served and no agent acts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from pydantic import TypeAdapter, ValidationError

from eventlog.events import RewardGraded, RunFinished, RunStarted, StepTaken

from ..envs.contract import Mutation
from ..envs.sites.known import KNOWN
from ..envs.sites.site import FULL, OracleGrade, Simulation, SiteKind
from ..plans import Plan
from ..rewards import REWARD_VERSION, Conduct, conduct_of, shape_reward, steps_planned
from .errors import CannotGrade, UnknownVerifier

Verifier = Callable[[Simulation, str], OracleGrade]
"""The grade of an instance for a task."""

_OF_TEN_THOUSANDTHS = 100
_ORACLE = "oracle:"
_MUTATIONS = TypeAdapter(tuple[Mutation, ...])


def _oracle(instance: Simulation, task: str) -> OracleGrade:
    return instance.grade(task)


def _outcome(instance: Simulation, task: str) -> OracleGrade:
    found = instance.grade(task)
    return replace(found, score_e4=FULL if found.passed else 0)


VERIFIERS: Mapping[str, Verifier] = {REWARD_VERSION: _oracle, "outcome-1": _outcome}
"""What can grade again, by the version that rides on its rewards. `outcome-1` gives no partial credit: its score is 1
where the oracle passed the run, else 0."""


@dataclass(frozen=True, slots=True)
class Regraded:
    """What a verifier says: score in millionths."""

    score: int
    passed: bool
    reasons: tuple[str, ...]


def verifier(version: str, known: Mapping[str, Verifier] = VERIFIERS) -> Verifier:
    """The verifier of a version. Raises UnknownVerifier."""
    if version not in known:
        raise UnknownVerifier(actual=version, expected=", ".join(sorted(known)))
    return known[version]


def restore_instance(
    started: RunStarted, seed: int, end_state: bytes, sites: Mapping[str, SiteKind] = KNOWN
) -> Simulation:
    """The instance as a run left it, from the bytes of its end state. Raises CannotGrade."""
    environment = started.task_spec.environment
    if environment not in sites:
        raise CannotGrade(run=started.run, actual=f"no site of ours is called {environment!r}")
    try:
        return sites[environment].restore(seed, _MUTATIONS.validate_json(end_state))
    except (ValidationError, ValueError) as error:
        raise CannotGrade(run=started.run, actual="its end state is no list of changes of that site") from error


def task_of(started: RunStarted) -> str:
    """The task that a run is graded for, as its conditions of success name it. Raises CannotGrade."""
    for condition in started.task_spec.success_conditions:
        if condition.startswith(_ORACLE):
            return condition.removeprefix(_ORACLE)
    raise CannotGrade(run=started.run, actual="it names no oracle task among its conditions of success")


def regrade_run(started: RunStarted, instance: Simulation, grade: Verifier) -> Regraded:
    """What a verifier says of a run's instance. Raises CannotGrade."""
    task = task_of(started)
    try:
        found = grade(instance, task)
    except KeyError as error:
        raise CannotGrade(run=started.run, actual=f"its site does not grade {task!r} from this state") from error
    return Regraded(found.score_e4 * _OF_TEN_THOUSANDTHS, found.passed, found.reasons)


def conduct_recorded(started: RunStarted, steps: Sequence[StepTaken], finished: RunFinished, plan: Plan) -> Conduct:
    """How a recorded run went; `plan` is the one that was recorded with it."""
    outcomes = [step.outcome for step in steps]
    max_steps = started.task_spec.max_steps
    planned = steps_planned(started.executor, plan, max_steps)
    return conduct_of(outcomes, finished.usage, planned=planned, max_steps=max_steps)


def reward_again(before: RewardGraded, said: Regraded, version: str, conduct: Conduct | None) -> RewardGraded:
    """The reward of a run by another verifier: its cost, prices and lambda stay, for the run was played once."""
    penalty = before.terms.penalty
    reward = before.model_copy(
        update={
            "version": version,
            "score": said.score,
            "passed": said.passed,
            "reasons": said.reasons,
            "terms": before.terms.model_copy(update={"score": said.score}),
            "value": None if penalty is None else said.score - penalty,
            "again": True,
        }
    )
    return shape_reward(reward, conduct)
