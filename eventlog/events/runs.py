"""The life of a run: planned, started, reset, its steps and model calls, then finished or missing."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from .event import BlobAddress, Count, Digest, Event, FrozenModel, Name, Whole
from .memory import Artifact, PieceKind
from .models import CheckName, ModelRole, Said, Sampling
from .plans import ActionName, Spec, TaskSpec, Template

ArmName = Literal["champion", "challenger"]

StepOutcome = Literal[
    "ok",
    "not_found",
    "forbidden",
    "server_error",
    "invalid_form",
    "no_such_link",
    "no_such_field",
    "no_such_option",
    "no_such_action",
    "invalid_argument",
]
"""How a step ended for the agent. If the environment does not answer, there is no outcome: the run is missing."""

RunStatus = Literal["completed", "halted", "out_of_budget"]

MissingCause = Literal[
    "environment_down", "environment_refused", "contract_broken", "model_down", "platform_error", "interrupted"
]
"""Why a run is missing. It was `interrupted` if the process that played it ended first: nothing is charged to it."""


class ArmRun(FrozenModel):
    """The evaluation, arm and repeat to which a run belongs."""

    evaluation: Name
    benchmark: Name
    arm: ArmName
    repeat: Count
    is_sealed: bool


class Applied(FrozenModel):
    """A piece of memory that changed a run's plan, and the index of the changed step; or one that the run was told."""

    piece: Name
    kind: PieceKind
    step: Count


class PieceConflict(FrozenModel):
    """Two pieces conflicted at one step of a plan: `kept` was applied, `dropped` was not."""

    step: Count
    kept: Name
    dropped: Name


class Usage(FrozenModel):
    """Resources that a run used. None means unknown, not zero."""

    actions: Count | None
    wall_microseconds: Count | None
    input_tokens: Count | None
    output_tokens: Count | None


class Share(FrozenModel):
    """One cluster's share of a failure-biased sweep: the failures counted for it, and its number of instances."""

    cluster: Name
    failures: Count
    instances: Count


class Bias(FrozenModel):
    """The bias of a sweep: shares of an instance budget in proportion to failures, as of log position `upto`.

    Failures were counted by `by`, of sweep `of` only (None: of all sweeps). A share may have no instance if the budget
    was too small for it.
    """

    upto: Count
    shares: tuple[Share, ...]
    by: Annotated[Literal["cluster", "template"] | None, Field(exclude_if=lambda by: by is None)] = None
    of: Annotated[Name | None, Field(exclude_if=lambda of: of is None)] = None


class Trials(FrozenModel):
    """Shares of a sweep's groups (millionths) in which one sibling carries a candidate, or withholds a piece.

    With 1,000,000 treated and 0 withheld, every eligible group tries a candidate. `suspect_micro` replaces the share
    withheld in groups in which a promoted piece applies whose evidence has turned against it; one of these is then
    withheld. The rest of these groups try candidates. None, and omitted when stored: such pieces are drawn like others.
    """

    treated_micro: Count = 800_000
    withheld_micro: Count = 200_000
    suspect_micro: Annotated[Count | None, Field(exclude_if=lambda share: share is None)] = None

    @classmethod
    def current(cls) -> Trials:
        """The shares of new sweeps: a promoted piece that may do harm is withheld in six of ten groups."""
        return cls(suspect_micro=600_000)


class SweepPlanned(Event):
    """A sweep was planned: its specs, recorded before the first run. All of them are pinned to one artifact.

    A further event of the same sweep adds siblings to its groups. `bias` explains the instances of a failure-biased
    sweep. If it `learns`, its failed runs propose rewrites. `executor` plays the sweep (None: plans over HTTP), with
    `model` if it calls one. `trials` are the shares drawn by `rng_seed` (None: as in the seed documents, every group
    tries any candidate). `suite` is the suite of the templates with its version, such as `shop@2`. If it `tells`, a
    demonstration's prompt says what memory changed in its plan. These seven fields are omitted when stored at their
    defaults, so older events keep their digest.
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
    suite: Annotated[Name | None, Field(exclude_if=lambda suite: suite is None)] = None
    tells: Annotated[bool, Field(exclude_if=lambda tells: not tells)] = False


class SweepEnded(Event):
    """All `runs` planned for a sweep have ended, and what they teach is recorded. A further plan opens it again."""

    type: Literal["SweepEnded"] = "SweepEnded"
    sweep: Name
    environment: Name
    runs: Count


class RunStarted(Event):
    """A run of a spec started, with this artifact. `plan` is the executed plan, `applied` the pieces that changed it.

    `subject` is the pseudonym of the person whose data the run reads or writes: its blobs can be erased. `conflicts`
    are pieces dropped in favour of others at the same step. These two fields are omitted when stored empty, so older
    events keep their digest and their append key's content. In version 1 no skill and no instruction was `applied`.
    """

    schema_version: ClassVar[int] = 2
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
    """The run's instance was reset to a seed. `fingerprint` is that of its start state."""

    type: Literal["InstanceReset"] = "InstanceReset"
    run: Name
    group: Name
    seed: Whole
    fingerprint: Digest


class StepTaken(Event):
    """The agent took one action: a step on a page, or an action that the environment names openly.

    `argument` is a blob: the text or JSON object that an environment's own action was given. It is None for a step on
    a page, whose plan or completion holds what was entered; if an agent reported the step itself, it is what it acted
    on. `observation` (the resulting page) and `screenshot` are blobs. `told_by` is the message that told a tool's
    result to the model, where the step was read from a conversation.
    """

    schema_version: ClassVar[int] = 2
    type: Literal["StepTaken"] = "StepTaken"
    run: Name
    index: Count
    action: ActionName
    argument: BlobAddress | None = None
    intent: str
    outcome: StepOutcome
    http_status: Count | None
    observation: BlobAddress | None
    screenshot: Annotated[BlobAddress | None, Field(exclude_if=lambda screenshot: screenshot is None)] = None
    told_by: Annotated[BlobAddress | None, Field(exclude_if=lambda told_by: told_by is None)] = None


class ModelCalled(Event):
    """One call of a model. `messages` is a chain of message blobs, `completion` its samples with ids and logprobs.

    `step` is the step that the call was made for, None before the first. `images` are the pictures in the messages,
    which contain only their addresses. A decomposer makes a plan before there is a run; its `run` is the plan's stream.
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
    """A step was checked, by a model or the oracle. `reason` is a blob, because it may contain a model's text."""

    type: Literal["StepVerified"] = "StepVerified"
    run: Name
    index: Count
    check: CheckName
    by: Literal["model", "oracle"]
    said: Said
    reason: BlobAddress
    operations: tuple[Name, ...]


class SiteRecorded(Event):
    """What its site and its model answered the run's agent was kept, so that it can be played again without them.

    `record` is a blob with what it was told at first and all `answers` after that. If it is not `is_whole`, there was
    more than is kept, and no answer is.
    """

    type: Literal["SiteRecorded"] = "SiteRecorded"
    run: Name
    record: BlobAddress
    answers: Count
    is_whole: bool


class RunFinished(Event):
    """The agent stopped. `end_state` is a blob of the instance's mutations, so that the run can be regraded."""

    type: Literal["RunFinished"] = "RunFinished"
    run: Name
    status: RunStatus
    fingerprint: Digest
    end_state: BlobAddress
    mutations: Count
    usage: Usage


class RunMissing(Event):
    """The platform could not play or grade the run. It has no reward, which is not a reward of zero."""

    type: Literal["RunMissing"] = "RunMissing"
    run: Name
    group: Name
    reason: MissingCause
    detail: str
