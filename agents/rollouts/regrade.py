"""Regrading of a run from its recorded end state, by a verifier of a given version. Pure.

The instance is restored from its seed and the recorded changes, so no site is served and no agent acts.
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
"""Function that grades an instance for a task."""

_OF_TEN_THOUSANDTHS = 100
_ORACLE = "oracle:"
_MUTATIONS: TypeAdapter[tuple[Mutation, ...]] = TypeAdapter(tuple[Mutation, ...])


def _oracle(instance: Simulation, task: str) -> OracleGrade:
    return instance.grade(task)


def _outcome(instance: Simulation, task: str) -> OracleGrade:
    found = instance.grade(task)
    return replace(found, score_e4=FULL if found.passed else 0)


VERIFIERS: Mapping[str, Verifier] = {REWARD_VERSION: _oracle, "outcome-1": _outcome}
"""Verifiers keyed by the version recorded in their rewards. `outcome-1` gives no partial credit: its score is 1 if the
oracle passed the run, else 0."""


@dataclass(frozen=True, slots=True)
class Regraded:
    """Grade by a verifier; `score` is in millionths."""

    score: int
    passed: bool
    reasons: tuple[str, ...]


def verifier(version: str, known: Mapping[str, Verifier] = VERIFIERS) -> Verifier:
    """The verifier of a version. Raises UnknownVerifier."""
    if version not in known:
        raise UnknownVerifier(actual=version, expected=", ".join(sorted(known)))
    return known[version]


def read_changes(end_state: bytes) -> tuple[Mutation, ...]:
    """The changes of a recorded end state. Raises ValidationError."""
    return _MUTATIONS.validate_json(end_state)


def restore_instance(
    started: RunStarted, seed: int, end_state: bytes, sites: Mapping[str, SiteKind] = KNOWN
) -> Simulation:
    """Restore the instance of a run from the bytes of its end state. Raises CannotGrade."""
    environment = started.task_spec.environment
    if environment not in sites:
        raise CannotGrade(run=started.run, actual=f"there is no built-in site {environment!r}")
    try:
        return sites[environment].restore(seed, read_changes(end_state))
    except (ValidationError, ValueError) as error:
        raise CannotGrade(run=started.run, actual="its end state is not a list of that site's changes") from error


def task_of(started: RunStarted) -> str:
    """Oracle task that a run's success conditions name. Raises CannotGrade."""
    for condition in started.task_spec.success_conditions:
        if condition.startswith(_ORACLE):
            return condition.removeprefix(_ORACLE)
    raise CannotGrade(run=started.run, actual="its success conditions name no oracle task")


def regrade_run(started: RunStarted, instance: Simulation, grade: Verifier) -> Regraded:
    """Grade a run's instance by a verifier. Raises CannotGrade."""
    task = task_of(started)
    try:
        found = grade(instance, task)
    except KeyError as error:
        raise CannotGrade(run=started.run, actual=f"its site does not grade {task!r} from this state") from error
    return Regraded(found.score_e4 * _OF_TEN_THOUSANDTHS, found.passed, found.reasons)


def conduct_recorded(started: RunStarted, steps: Sequence[StepTaken], finished: RunFinished, plan: Plan) -> Conduct:
    """Conduct of a recorded run; `plan` is its recorded plan."""
    outcomes = [step.outcome for step in steps]
    max_steps = started.task_spec.max_steps
    planned = steps_planned(started.executor, plan, max_steps)
    return conduct_of(outcomes, finished.usage, planned=planned, max_steps=max_steps)


def reward_again(before: RewardGraded, said: Regraded, version: str, conduct: Conduct | None) -> RewardGraded:
    """Reward of a run by another verifier; cost, prices and lambda stay, because the run was played once."""
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
