"""Runs: planned, started, reset, stepped, finished or missing."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from .event import BlobAddress, Count, Digest, Event, FrozenModel, Name, Whole
from .memory import Artifact, PieceKind
from .models import CheckName, ModelRole, Said, Sampling
from .plans import Spec, StepType, TaskSpec, Template

ArmName = Literal["champion", "challenger"]

StepOutcome = Literal[
    "ok", "not_found", "forbidden", "server_error", "invalid_form", "no_such_link", "no_such_field", "no_such_option"
]
"""How a step ended for the agent. An environment that does not answer is no outcome: that run is missing."""

RunStatus = Literal["completed", "halted", "out_of_budget"]

MissingCause = Literal["environment_down", "environment_refused", "contract_broken", "model_down", "platform_error"]


class ArmRun(FrozenModel):
    """Which place of which evaluation a run fills."""

    evaluation: Name
    benchmark: Name
    arm: ArmName
    repeat: Count
    is_sealed: bool


class Applied(FrozenModel):
    """A piece of memory that changed the plan of a run, and the step it changed."""

    piece: Name
    kind: PieceKind
    step: Count


class PieceConflict(FrozenModel):
    """Two pieces wanted the same of one step of a plan: `kept` was applied, `dropped` was not."""

    step: Count
    kept: Name
    dropped: Name


class Usage(FrozenModel):
    """What a run used. None is unknown, never zero."""

    actions: Count | None
    wall_microseconds: Count | None
    input_tokens: Count | None
    output_tokens: Count | None


class Share(FrozenModel):
    """What one cluster got of a biased sweep: the failures that counted for it, and its instances."""

    cluster: Name
    failures: Count
    instances: Count


class Bias(FrozenModel):
    """Why a sweep draws what it draws: shares of an instance budget by failures, as read at a position of the log.

    `by` is what failures were counted by, `of` the sweep whose failures alone counted (None: all). A share may be of no
    instance: there were failures, and the budget did not reach them.
    """

    upto: Count
    shares: tuple[Share, ...]
    by: Annotated[Literal["cluster", "template"] | None, Field(exclude_if=lambda by: by is None)] = None
    of: Annotated[Name | None, Field(exclude_if=lambda of: of is None)] = None


class Trials(FrozenModel):
    """Which shares of a sweep's groups try a piece, in millionths: one sibling is treated, or does without one.

    Of 1,000,000 treated and 0 withheld, every group that can be is treated.
    """

    treated_micro: Count = 800_000
    withheld_micro: Count = 200_000


class SweepPlanned(Event):
    """Specs of a sweep, before the first of them runs. The artifact is pinned for all of them.

    A further event of the same sweep adds siblings to its groups. `bias` is why a failure-biased sweep draws as it
    does. Of a sweep that `learns`, failures propose rewrites. `executor` plays it (None: plans over HTTP), with `model`
    where it asks one. `trials` are the shares that were drawn by `rng_seed` (None: by the seeds' way, every group
    treated with any candidate). An event that learns, without a bias and trials and for plans, is written as it was
    before there were these five.
    """

    type: Literal["SweepPlanned"] = "SweepPlanned"
    sweep: Name
    environment: Name
    templates: tuple[Template, ...]
    specs: tuple[Spec, ...]
    artifact: Artifact
    rng_seed: Whole
    bias: Annotated[Bias | None, Field(exclude_if=lambda bias: bias is None)] = None
    learns: Annotated[bool, Field(exclude_if=lambda learns: learns)] = True
    executor: Annotated[Name | None, Field(exclude_if=lambda executor: executor is None)] = None
    model: Annotated[Name | None, Field(exclude_if=lambda model: model is None)] = None
    trials: Annotated[Trials | None, Field(exclude_if=lambda trials: trials is None)] = None


class RunStarted(Event):
    """A spec is being executed: with which artifact, and what of its memory applied. `plan` is the executed plan.

    `subject` is the pseudonym of the person whose data the run reads or writes: its blobs can be erased. `conflicts`
    are pieces that gave way to others of the same step. An event without these two is written as it was before there
    were any: the same digest, the same content for its key.
    """

    type: Literal["RunStarted"] = "RunStarted"
    run: Name
    spec: Spec
    task_spec: TaskSpec
    artifact: Artifact
    executor: Name
    plan: BlobAddress
    applied: tuple[Applied, ...]
    arm: ArmRun | None
    subject: Annotated[Name | None, Field(exclude_if=lambda subject: subject is None)] = None
    conflicts: Annotated[tuple[PieceConflict, ...], Field(exclude_if=lambda conflicts: not conflicts)] = ()


class InstanceReset(Event):
    """The receipt of a fresh instance: the seed it was reset to and the fingerprint of its start state."""

    type: Literal["InstanceReset"] = "InstanceReset"
    run: Name
    group: Name
    seed: Whole
    fingerprint: Digest


class StepTaken(Event):
    """One action and how it ended; the page it led to is a blob, and so is the picture of it where there is one."""

    type: Literal["StepTaken"] = "StepTaken"
    run: Name
    index: Count
    action: StepType
    intent: str
    outcome: StepOutcome
    http_status: Count | None
    observation: BlobAddress | None
    screenshot: Annotated[BlobAddress | None, Field(exclude_if=lambda screenshot: screenshot is None)] = None


class ModelCalled(Event):
    """One call of a model. `messages` is a chain of message blobs, `completion` its samples with ids and logprobs.

    `step` is the step that it was asked for, None where it was asked before the first. `images` are the pictures in the
    messages, which hold their addresses alone. A decomposer makes a plan before there is a run: there `run` is the
    plan's stream.
    """

    type: Literal["ModelCalled"] = "ModelCalled"
    run: Name
    index: Count
    step: Count | None
    role: ModelRole
    model: Name
    sampling: Sampling
    messages: BlobAddress
    images: tuple[BlobAddress, ...]
    completion: BlobAddress
    has_logprobs: bool
    input_tokens: Count | None
    output_tokens: Count | None


class StepVerified(Event):
    """What a step check said, and whose it was. `reason` is a blob: it may hold what a model wrote."""

    type: Literal["StepVerified"] = "StepVerified"
    run: Name
    index: Count
    check: CheckName
    by: Literal["model", "oracle"]
    said: Said
    reason: BlobAddress
    operations: tuple[Name, ...]


class RunFinished(Event):
    """The agent stopped. `end_state` is the instance's mutations as a blob, so that it can be graded again."""

    type: Literal["RunFinished"] = "RunFinished"
    run: Name
    status: RunStatus
    fingerprint: Digest
    end_state: BlobAddress
    mutations: Count
    usage: Usage


class RunMissing(Event):
    """The platform could not play or grade the run: no reward, which is not a reward of zero."""

    type: Literal["RunMissing"] = "RunMissing"
    run: Name
    group: Name
    reason: MissingCause
    detail: str
