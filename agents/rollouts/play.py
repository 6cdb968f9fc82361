"""One spec, one run: a fresh instance, the plan, the oracle, and recovery where it failed.

What the run meant is decided elsewhere; here it becomes facts. A site that does not answer makes the run missing.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

from eventlog.blobs import Blob
from eventlog.events import (
    AnyEvent,
    ArmRun,
    Artifact,
    InstanceReset,
    MissingCause,
    PromotionRule,
    RewriteProposed,
    RunFinished,
    RunMissing,
    RunStarted,
    Spec,
    StepTaken,
    TaskSpec,
    Template,
    Usage,
)
from projections.costs import PriceBook

from ..envs.client import EnvClient
from ..envs.contract import Graded, Instance, Mutation
from ..envs.errors import ContractBroken, EnvironmentDown, EnvironmentFailure, EnvironmentRefused
from ..envs.pages import Session
from ..executors import plan as plan_executor
from ..executors.plan import Execution, Taken
from ..learning.recovery import propose
from ..plans import Overlaid, Piece, apply_overlay, plan_bytes
from ..rewards import conduct_of, graded

PAGE_TYPE = "text/plain; charset=utf-8"
JSON_TYPE = "application/json"


@dataclass(frozen=True, slots=True)
class Job:
    """Everything one run needs to know. `learns` says whether recovery may propose."""

    spec: Spec
    template: Template
    environment: str
    artifact: Artifact
    pieces: tuple[Piece, ...]
    candidate: Piece | None
    arm: ArmRun | None
    learns: bool

    @property
    def run(self) -> str:
        """The run's name is the spec's."""
        return self.spec.spec_id

    def overlaid(self) -> Overlaid:
        """The template's plan with memory applied, and the candidate on trial."""
        return apply_overlay(self.template.plan_steps, self.pieces, forced=self.candidate)


@dataclass(frozen=True, slots=True)
class Played:
    """What a run left behind: the rest of its events, its blobs, and what recovery proposed."""

    events: tuple[AnyEvent, ...]
    blobs: tuple[Blob, ...]
    proposals: tuple[RewriteProposed, ...]


def started(job: Job) -> tuple[RunStarted, Blob]:
    """The first event of a run and the blob of the plan that it will execute."""
    overlaid = job.overlaid()
    blob = Blob(JSON_TYPE, plan_bytes(overlaid.plan))
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
        executor=plan_executor.NAME,
        plan=blob.digest,
        applied=overlaid.applied,
        arm=job.arm,
    )
    return event, blob


def play(job: Job, client: EnvClient, book: PriceBook, rule: PromotionRule, stopwatch: Callable[[], int]) -> Played:
    """Execute and grade. `stopwatch` gives monotonic microseconds. Infrastructure failures become RunMissing."""
    try:
        instance = client.reset(job.spec.env_seed, repeat=job.spec.sibling_index)
        try:
            return _played(job, client, instance, book, rule, stopwatch)
        finally:
            _close(client, instance)
    except EnvironmentFailure as failure:
        missing = RunMissing(run=job.run, group=job.spec.group_id, reason=_cause(failure), detail=str(failure))
        return Played((missing,), (), ())


def _played(
    job: Job,
    client: EnvClient,
    instance: Instance,
    book: PriceBook,
    rule: PromotionRule,
    stopwatch: Callable[[], int],
) -> Played:
    fingerprint = _sha(client.state(instance).fingerprint)
    reset = InstanceReset(run=job.run, group=job.spec.group_id, seed=instance.seed, fingerprint=fingerprint)
    plan = job.overlaid().plan
    with Session(instance.url) as session:
        began = stopwatch()
        execution = plan_executor.execute(plan, session, max_steps=job.template.max_steps)
        wall = stopwatch() - began
        finish, end_state = _finished(job, client, instance, execution, wall)
        judged = client.oracle(instance, job.template.oracle_task_id)
        proposals = _proposals(job, execution, judged, rule, session)
    reward = graded(
        job.run,
        job.spec.group_id,
        judged.score_micro,
        judged.reasons,
        finish.usage,
        book,
        passed=judged.passed,
        conduct=conduct_of(
            [taken.outcome for taken in execution.taken],
            finish.usage,
            planned=len(plan),
            max_steps=job.template.max_steps,
        ),
    )
    pages = tuple(Blob(PAGE_TYPE, taken.text.encode()) for taken in execution.taken if taken.text is not None)
    steps = tuple(_step(job.run, taken) for taken in execution.taken)
    return Played((reset, *steps, finish, reward), (*pages, end_state), proposals)


def _step(run: str, taken: Taken) -> StepTaken:
    page = None if taken.text is None else Blob(PAGE_TYPE, taken.text.encode()).digest
    return StepTaken(
        run=run,
        index=taken.index,
        action=taken.step.type,
        intent=taken.step.intent,
        outcome=taken.outcome,
        http_status=taken.http_status,
        observation=page,
    )


def _finished(
    job: Job, client: EnvClient, instance: Instance, execution: Execution, wall: int
) -> tuple[RunFinished, Blob]:
    mutations = client.mutations(instance)
    end_state = Blob(JSON_TYPE, json.dumps([_plain(mutation) for mutation in mutations], sort_keys=True).encode())
    event = RunFinished(
        run=job.run,
        status=execution.status,
        fingerprint=_sha(client.state(instance).fingerprint),
        end_state=end_state.digest,
        mutations=len(mutations),
        usage=Usage(actions=len(execution.taken), wall_microseconds=wall, input_tokens=0, output_tokens=0),
    )
    return event, end_state


def _proposals(
    job: Job, execution: Execution, judged: Graded, rule: PromotionRule, session: Session
) -> tuple[RewriteProposed, ...]:
    failed = execution.failed
    if not job.learns or judged.passed or failed is None or job.candidate is not None:
        return ()
    if failed.step not in job.template.plan_steps:
        return ()
    place = job.template.plan_steps.index(failed.step)
    following = job.template.plan_steps[place + 1] if place + 1 < len(job.template.plan_steps) else None
    try:
        found = propose(failed.step, following, session)
    except EnvironmentFailure:
        return ()  # the run is played and graded: what recovery meets afterwards takes nothing from it
    return tuple(proposal.event(job.run, rule) for proposal in found)


def _plain(mutation: Mutation) -> dict[str, object]:
    return mutation.model_dump(mode="json")


def _sha(fingerprint: str) -> str:
    return fingerprint.removeprefix("sha256:")


def _cause(failure: EnvironmentFailure) -> MissingCause:
    match failure:
        case EnvironmentDown():
            return "environment_down"
        case EnvironmentRefused():
            return "environment_refused"
        case ContractBroken():
            return "contract_broken"
        case _:
            return "platform_error"


def _close(client: EnvClient, instance: Instance) -> None:
    try:
        client.close(instance)
    except EnvironmentFailure:
        return
