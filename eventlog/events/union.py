"""Every name of the vocabulary. Importing this module builds every event class; importing the package does not."""

from __future__ import annotations

from typing import get_args

from .champion import ChampionPointed
from .courses import Budget, CourseClosed, CourseLoop, CourseOpened
from .datasets import (
    DatasetFrozen,
    DpoQuery,
    Floor,
    GrpoQuery,
    Query,
    Refused,
    RewardName,
    SftQuery,
    SliceRegistered,
    Tokens,
    is_asked_for,
    query_of,
)
from .environments import EnvironmentAdmitted, EnvironmentProbed, ProbeOutcome, ProbeResult, StartFingerprint
from .event import Event, FrozenModel
from .gate import (
    ArmSummary,
    BenchmarkFrozen,
    BenchmarkTask,
    BenchmarkTemplate,
    Confirmation,
    Decision,
    EvaluationOpened,
    Interval,
    Rules,
    Stratum,
    TaskPlan,
    Verdict,
    VerdictReached,
    Visible,
)
from .memory import (
    Artifact,
    ChoiceReason,
    Decay,
    ExemplarCaptured,
    HintRecorded,
    Memory,
    MemoryQuarantined,
    Occasion,
    PieceKind,
    PieceSource,
    PieceTried,
    RecipeImported,
    SnippetLearned,
    Substrate,
    SubstrateChosen,
    SubstrateCredited,
    artifact_name,
)
from .models import CheckName, ModelRole, Said, Sampling
from .plans import Spec, Step, StepType, TaskSpec, Template, places, unroll
from .policy import PriceBookSet, RunsWithdrawn, SubjectErased, TokenIssued, TokenRevoked
from .recovery import RecoveryDecided, RecoveryMode, RecoveryReason
from .rewards import JudgeOpined, RewardGraded, RewardTerms
from .rewrites import (
    Anchor,
    Change,
    EditStep,
    FollowLink,
    InsertSteps,
    PairedRule,
    PreferTarget,
    PromotionRule,
    ReplaceUrl,
    RewriteLost,
    RewriteProposed,
    RewriteSource,
    RewriteWon,
    SeedsRule,
)
from .runs import (
    Applied,
    ArmName,
    ArmRun,
    Bias,
    InstanceReset,
    MissingCause,
    ModelCalled,
    PieceConflict,
    RunFinished,
    RunMissing,
    RunStarted,
    RunStatus,
    Share,
    StepOutcome,
    StepTaken,
    StepVerified,
    SweepPlanned,
    Trials,
    Usage,
)
from .training import (
    CheckpointFile,
    CheckpointPublished,
    CheckpointSaved,
    DpoConfig,
    Form,
    GrpoConfig,
    Metrics,
    SftConfig,
    StageConfig,
    TrainingFailed,
    TrainingProgressed,
    TrainingStarted,
    WarmupConfig,
    stage_config_of,
)

AnyEvent = (
    EnvironmentProbed
    | EnvironmentAdmitted
    | SweepPlanned
    | RunStarted
    | InstanceReset
    | StepTaken
    | ModelCalled
    | StepVerified
    | RunFinished
    | RunMissing
    | RewardGraded
    | JudgeOpined
    | RecoveryDecided
    | RewriteProposed
    | RewriteWon
    | RewriteLost
    | HintRecorded
    | ExemplarCaptured
    | SnippetLearned
    | RecipeImported
    | MemoryQuarantined
    | PieceTried
    | SubstrateChosen
    | SubstrateCredited
    | CourseOpened
    | CourseClosed
    | DatasetFrozen
    | SliceRegistered
    | TrainingStarted
    | TrainingProgressed
    | TrainingFailed
    | CheckpointSaved
    | CheckpointPublished
    | BenchmarkFrozen
    | EvaluationOpened
    | VerdictReached
    | ChampionPointed
    | PriceBookSet
    | RunsWithdrawn
    | SubjectErased
    | TokenIssued
    | TokenRevoked
)

EVENT_TYPES: dict[str, type[Event]] = {kind.__name__: kind for kind in get_args(AnyEvent)}

__all__ = [
    "EVENT_TYPES",
    "Anchor",
    "AnyEvent",
    "Applied",
    "ArmName",
    "ArmRun",
    "ArmSummary",
    "Artifact",
    "BenchmarkFrozen",
    "BenchmarkTask",
    "BenchmarkTemplate",
    "Bias",
    "Budget",
    "ChampionPointed",
    "Change",
    "CheckName",
    "CheckpointFile",
    "CheckpointPublished",
    "CheckpointSaved",
    "ChoiceReason",
    "Confirmation",
    "CourseClosed",
    "CourseLoop",
    "CourseOpened",
    "DatasetFrozen",
    "Decay",
    "Decision",
    "DpoConfig",
    "DpoQuery",
    "EditStep",
    "EnvironmentAdmitted",
    "EnvironmentProbed",
    "EvaluationOpened",
    "Event",
    "ExemplarCaptured",
    "Floor",
    "FollowLink",
    "Form",
    "FrozenModel",
    "GrpoConfig",
    "GrpoQuery",
    "HintRecorded",
    "InsertSteps",
    "InstanceReset",
    "Interval",
    "JudgeOpined",
    "Memory",
    "MemoryQuarantined",
    "Metrics",
    "MissingCause",
    "ModelCalled",
    "ModelRole",
    "Occasion",
    "PairedRule",
    "PieceConflict",
    "PieceKind",
    "PieceSource",
    "PieceTried",
    "PreferTarget",
    "PriceBookSet",
    "ProbeOutcome",
    "ProbeResult",
    "PromotionRule",
    "Query",
    "RecipeImported",
    "RecoveryDecided",
    "RecoveryMode",
    "RecoveryReason",
    "Refused",
    "ReplaceUrl",
    "RewardGraded",
    "RewardName",
    "RewardTerms",
    "RewriteLost",
    "RewriteProposed",
    "RewriteSource",
    "RewriteWon",
    "Rules",
    "RunFinished",
    "RunMissing",
    "RunStarted",
    "RunStatus",
    "RunsWithdrawn",
    "Said",
    "Sampling",
    "SeedsRule",
    "SftConfig",
    "SftQuery",
    "Share",
    "SliceRegistered",
    "SnippetLearned",
    "Spec",
    "StageConfig",
    "StartFingerprint",
    "Step",
    "StepOutcome",
    "StepTaken",
    "StepType",
    "StepVerified",
    "Stratum",
    "SubjectErased",
    "Substrate",
    "SubstrateChosen",
    "SubstrateCredited",
    "SweepPlanned",
    "TaskPlan",
    "TaskSpec",
    "Template",
    "TokenIssued",
    "TokenRevoked",
    "Tokens",
    "TrainingFailed",
    "TrainingProgressed",
    "TrainingStarted",
    "Trials",
    "Usage",
    "Verdict",
    "VerdictReached",
    "Visible",
    "WarmupConfig",
    "artifact_name",
    "is_asked_for",
    "places",
    "query_of",
    "stage_config_of",
    "unroll",
]
