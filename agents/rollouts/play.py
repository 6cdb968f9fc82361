"""Play one spec as one run: reset an instance, execute the plan, grade by the oracle, and recover if it failed.

The result is events, which are evaluated elsewhere. A site that does not answer makes the run missing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from eventlog.blobs import Blob
from eventlog.errors import WeightsFailure
from eventlog.events import (
    AnyEvent,
    ArmRun,
    Artifact,
    HintRecorded,
    InstanceReset,
    PromotionRule,
    RewriteProposed,
    RunFinished,
    RunMissing,
    RunStarted,
    Spec,
    TaskSpec,
    Template,
    Usage,
)
from projections.costs import PriceBook
from projections.runs import PLANLESS

from ..envs.addresses import shown_in, without_instances
from ..envs.contract import Instance
from ..envs.environment import Environment
from ..envs.errors import EnvironmentFailure
from ..envs.unclosed_instances import close_or_count
from ..executors import plan as plan_executor
from ..executors.executor import Advised, Assignment, Execution, Executor, Watch, no_verification
from ..executors.inspection import HttpInspector
from ..executors.plan import PlanExecutor
from ..learning.advice import advice_lines, applied_of, skills_told
from ..learning.guidance import guidance_text
from ..learning.inspection import Inspector
from ..learning.occasions import AnyPiece, OccasionPiece
from ..learning.recovery.budgets import BUDGETS, Budgets
from ..learning.recovery.failing import failed_run
from ..learning.retrieval import overlay_memory
from ..models.errors import ModelFailure
from ..models.model import Model
from ..plans import Overlaid, Piece, plan_bytes
from ..rewards import Conduct, compute_reward, conduct_of, steps_planned
from ..suites.tasks import NO_OPERATIONS, Operations
from .drawing import drawing_seed
from .facts import JSON_TYPE, NO_STATE, NOT_KEPT, execution_facts, usage_of
from .missing import missing_cause
from .recovery_facts import NOTHING, Looking, Recovery, look_for_hints, recover_run
from .step_term import step_term


@dataclass(frozen=True, slots=True)
class Job:
    """Input of one run. `learns` is True if recovery may propose.

    `pieces` are the pieces of the artifact's memory for the run's plan, without the `withheld` one; `told` are those
    that a policy is told. If it `tells`, a demonstration's prompt holds what memory changes in its plan: `said`. A new
    proposal brings the `returning` pieces back. `known` pieces have a row in the folds, as their proposing runs count.
    """

    spec: Spec
    template: Template
    environment: str
    artifact: Artifact
    pieces: tuple[AnyPiece, ...]
    candidate: AnyPiece | None
    arm: ArmRun | None
    learns: bool
    returning: frozenset[str] = frozenset()
    known: frozenset[str] = frozenset()
    told: tuple[OccasionPiece, ...] = ()
    withheld: AnyPiece | None = None
    tells: bool = False
    said: tuple[str, ...] = ()

    @property
    def run(self) -> str:
        """Run id, which is the spec's id."""
        return self.spec.spec_id

    def overlay_plan(self) -> Overlaid:
        """Apply memory and the candidate on trial to the template's plan."""
        template = self.template
        return overlay_memory(template.plan_steps, template.instruction, self.environment, self.pieces, self.candidate)

    def overlay_trial(self, piece: Piece | None) -> Overlaid:
        """Apply memory and this piece, in place of the job's candidate, to the template's plan."""
        return replace(self, candidate=piece).overlay_plan()

    def assignment(self, page_headers: Mapping[str, str], profile: bytes | None = None) -> Assignment:
        """Input of the executor. A model samples with the spec's `drawing_seed`."""
        return Assignment(
            instruction=self.template.instruction,
            plan=self.overlay_plan().plan,
            max_steps=self.template.max_steps,
            seed=drawing_seed(self.spec),
            temperature_micro=self.spec.temperature_micro or 0,
            profile=profile,
            page_headers=page_headers,
            weights=self.artifact.weights,
            advice=self.said or advice_lines(self.told),
            guidance=guidance_text(self.told),
            run=self.run,
            skills=skills_told(self.told),
            environment=self.environment,
            task=self.template.oracle_task_id,
            is_sealed=self.arm is not None and self.arm.is_sealed,
        )


PLAN = PlanExecutor()

TRIES = 3
"""Attempts to play a run, each with a fresh instance, before it is recorded as missing."""


@dataclass(frozen=True, slots=True)
class Means:
    """Services and settings that a run is played with.

    `watching` makes the step check of an instance. `inspector` makes recovery's inspector of an instance, with the
    index of the run's noise, and `advisor` is the model that recovery may ask. `operations` are those that the steps
    of the site's plans are expected to record. `rule` is the promotion rule of proposals; `stopwatch` returns monotonic
    microseconds. Recovery `looks_for_hints` in failed runs of an executor that is told memory. `grades` is False where
    somebody else grades the run: no reward is computed, and neither its end state nor its fingerprint is kept.
    """

    environment: Environment
    book: PriceBook
    rule: PromotionRule
    stopwatch: Callable[[], int]
    executor: Executor = PLAN
    watching: Callable[[Instance], Watch] = lambda _instance: no_verification
    tries: int = TRIES
    inspector: Callable[[Environment, Instance, int], Inspector] = HttpInspector
    budgets: Budgets = BUDGETS
    advisor: Model | None = None
    operations: Operations = NO_OPERATIONS
    looks_for_hints: bool = True
    grades: bool = True


@dataclass(frozen=True, slots=True)
class Played:
    """Result of a run: the events after its start, its blobs, recovery's proposals, and its browser profile.

    `stands` is False if the log holds another end of the run.
    """

    events: tuple[AnyEvent, ...]
    blobs: tuple[Blob, ...]
    proposals: tuple[RewriteProposed | HintRecorded, ...]
    profile: bytes | None = None
    stands: bool = True


def start_facts(job: Job, executor: str = plan_executor.NAME) -> tuple[RunStarted, Blob]:
    """First event of a run, and the blob of the plan that it will execute."""
    executed = job.overlay_plan()
    blob = Blob(JSON_TYPE, plan_bytes(executed.plan))
    task_spec = TaskSpec(
        task_spec_id=f"{job.template.template_id}.{blob.digest[:8]}",
        instruction=job.template.instruction,
        task_class=job.template.cluster,
        environment=job.environment,
        max_steps=job.template.max_steps,
        success_conditions=(f"oracle:{job.template.oracle_task_id}",),
    )
    event = RunStarted(
        run=job.run,
        spec=job.spec,
        task_spec=task_spec,
        artifact=job.artifact,
        executor=executor,
        plan=blob.digest,
        applied=(*executed.applied, *applied_of(job.told)),
        arm=job.arm,
        conflicts=executed.conflicts,
    )
    return event, blob


def at_once() -> None:
    """Return at once: the first step waits for nothing."""


def play(job: Job, means: Means, profile: bytes | None = None, ready: Callable[[], None] = at_once) -> Played:
    """Execute and grade a run, starting from a browser profile if given. Failures of the platform become RunMissing.

    `ready` is called between the reset of the instance and the first step; its exceptions propagate.
    """
    instance = None
    try:
        instance = means.environment.reset(job.spec.env_seed, repeat=job.spec.sibling_index)
        try:
            return _play(job, means, instance, profile, ready)
        finally:
            close_or_count(means.environment, instance)
    except (EnvironmentFailure, ModelFailure, WeightsFailure) as failure:
        detail = without_instances(shown_in(str(failure)), *([] if instance is None else [instance.instance]))
        missing = RunMissing(run=job.run, group=job.spec.group_id, reason=missing_cause(failure), detail=detail)
        return Played((missing,), (), ())


def _play(job: Job, means: Means, instance: Instance, profile: bytes | None, ready: Callable[[], None]) -> Played:
    environment = means.environment
    fingerprint = _sha(environment.state(instance).fingerprint)
    reset = InstanceReset(run=job.run, group=job.spec.group_id, seed=instance.seed, fingerprint=fingerprint)
    assignment = job.assignment(environment.page_headers, profile)
    ready()
    began = means.stopwatch()
    execution = means.executor.execute(assignment, instance, means.watching(instance))
    wall = means.stopwatch() - began
    finish, end_state = _end_facts(job, means, instance, execution, wall)
    facts = execution_facts(job.run, execution)
    if not means.grades:
        return Played((reset, *facts.events, finish), (*facts.blobs, end_state), (), execution.profile)
    judged = environment.oracle(instance, job.template.oracle_task_id)
    recovery = _recover(job, means, execution, instance, passed=judged.passed)
    reward = compute_reward(
        job.run,
        job.spec.group_id,
        judged.score_micro,
        judged.reasons,
        finish.usage,
        means.book,
        passed=judged.passed,
        conduct=_conduct(means.executor, assignment, execution, finish.usage),
        steps=step_term(execution, means.operations),
    )
    return Played(
        (reset, *facts.events, finish, reward, *recovery.decided),
        (*facts.blobs, end_state, *recovery.contents),
        recovery.proposals,
        execution.profile,
    )


def _conduct(executor: Executor, assignment: Assignment, execution: Execution, usage: Usage) -> Conduct | None:
    """Conduct of an execution, by which a reward is shaped; None if only the agent itself says what it did."""
    if execution.is_reported:
        return None
    return conduct_of(
        [taken.outcome for taken in execution.taken],
        usage,
        planned=steps_planned(executor.name, assignment.plan, assignment.max_steps),
        max_steps=assignment.max_steps,
    )


def _end_facts(job: Job, means: Means, instance: Instance, execution: Execution, wall: int) -> tuple[RunFinished, Blob]:
    mutations = means.environment.mutations(instance) if means.grades else ()
    told = [mutation.model_dump(mode="json") for mutation in mutations]
    end_state = Blob(JSON_TYPE, json.dumps(told, sort_keys=True).encode()) if means.grades else NOT_KEPT
    event = RunFinished(
        run=job.run,
        status=execution.status,
        fingerprint=_sha(means.environment.state(instance).fingerprint) if means.grades else NO_STATE,
        end_state=end_state.digest,
        mutations=len(mutations),
        usage=usage_of(execution, wall),
    )
    return event, end_state


def _recover(job: Job, means: Means, execution: Execution, instance: Instance, *, passed: bool) -> Recovery:
    """Recovery of a failed run; empty if the run may not teach anything, or recovery cannot follow its steps.

    Siblings of one instance fail alike, so only the first is recovered.
    """
    may_teach = job.learns and job.arm is None and job.spec.is_plain and job.spec.sibling_index == 0
    if passed or not may_teach:
        return NOTHING
    if isinstance(means.executor, Advised) and means.executor.walks_pages and means.looks_for_hints:
        inspector = means.inspector(means.environment, instance, job.spec.sibling_index)
        looking = Looking(means.budgets, None, means.rule)
        return look_for_hints(job.run, job.environment, job.template, execution, inspector, looking)
    if means.executor.name in PLANLESS or execution.status == "out_of_budget":
        return NOTHING
    at = None if execution.failed_step is None else execution.failed_step.index
    run = failed_run(job.environment, job.template.plan_steps, job.overlay_trial, at, job.template.max_steps)
    inspector = means.inspector(means.environment, instance, job.spec.sibling_index)
    calls = len(execution.called) + sum(len(check.model_calls) for check in execution.verified)
    looking = Looking(means.budgets, means.advisor, means.rule)
    return recover_run(job.run, run, inspector, looking, calls)


def _sha(fingerprint: str) -> str:
    return fingerprint.removeprefix("sha256:")
