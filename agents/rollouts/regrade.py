"""Regrading of a run from its recorded end state, by a verifier of a given version. Pure.

The instance is restored from its seed and the recorded changes, so no site is served and no agent acts. Where an
environment is not built in, what its own oracle said of that end state stands for the instance.
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


@dataclass(frozen=True, slots=True)
class KeptInstance:
    """The end state of a run in an environment that is not built in: it grades as its oracle did when the run ended."""

    started: RunStarted
    finished: RunFinished
    mutations: Sequence[Mutation]
    first: RewardGraded

    @property
    def seed(self) -> int:
        """See Simulation."""
        return self.started.spec.env_seed

    def counts(self) -> Mapping[str, int]:
        """See Simulation. Nothing is known of what the instance held."""
        return {}

    def fingerprint(self) -> str:
        """See Simulation."""
        return f"sha256:{self.finished.fingerprint}"

    def grade(self, task_id: str) -> OracleGrade:
        """See Simulation. Raises KeyError for a task that the run did not have."""
        if task_id != task_of(self.started):
            raise KeyError(task_id)
        return OracleGrade(self.first.passed, self.first.score // _OF_TEN_THOUSANDTHS, self.first.reasons, {})


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


def instance_to_grade(
    started: RunStarted,
    finished: RunFinished,
    end_state: bytes,
    first: RewardGraded | None,
    sites: Mapping[str, SiteKind] = KNOWN,
) -> Simulation:
    """The instance of a run as it was left: restored on a built-in site, else as its oracle graded it at `first`.

    Raises CannotGrade.
    """
    if started.task_spec.environment in sites or first is None or first.version != REWARD_VERSION:
        return restore_instance(started, started.spec.env_seed, end_state, sites)
    try:
        return KeptInstance(started, finished, read_changes(end_state), first)
    except ValidationError as error:
        raise CannotGrade(run=started.run, actual="its end state is not a list of changes") from error


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
    score = found.score_e4 * _OF_TEN_THOUSANDTHS
    if (
        isinstance(instance, KeptInstance)
        and score == instance.first.score // _OF_TEN_THOUSANDTHS * _OF_TEN_THOUSANDTHS
    ):
        score = instance.first.score  # an environment's reward may be finer than an oracle's score
    return Regraded(score, found.passed, found.reasons)


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
