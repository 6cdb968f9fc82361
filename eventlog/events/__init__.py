"""The vocabulary. Names are the storage format: they never change.

`AnyEvent` is the closed union, `EVENT_TYPES` finds a class by its stored name.
"""

from __future__ import annotations

from typing import get_args

from .champion import ChampionPointed
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
from .memory import Artifact, Memory, MemoryQuarantined, PieceKind, PieceTried
from .models import CheckName, ModelRole, Said, Sampling
from .plans import Spec, Step, StepType, TaskSpec, Template
from .policy import PriceBookSet, RunsWithdrawn, SubjectErased, TokenIssued, TokenRevoked
from .rewards import JudgeOpined, RewardGraded, RewardTerms
from .rewrites import (
    Anchor,
    Change,
    FollowLink,
    PairedRule,
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
    | RewriteProposed
    | RewriteWon
    | RewriteLost
    | MemoryQuarantined
    | PieceTried
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
    "ChampionPointed",
    "Change",
    "CheckName",
    "CheckpointFile",
    "CheckpointPublished",
    "CheckpointSaved",
    "Confirmation",
    "DatasetFrozen",
    "Decision",
    "DpoConfig",
    "DpoQuery",
    "EnvironmentAdmitted",
    "EnvironmentProbed",
    "EvaluationOpened",
    "Event",
    "Floor",
    "FollowLink",
    "Form",
    "FrozenModel",
    "GrpoConfig",
    "GrpoQuery",
    "InstanceReset",
    "Interval",
    "JudgeOpined",
    "Memory",
    "MemoryQuarantined",
    "Metrics",
    "MissingCause",
    "ModelCalled",
    "ModelRole",
    "PairedRule",
    "PieceKind",
    "PieceTried",
    "PriceBookSet",
    "ProbeOutcome",
    "ProbeResult",
    "PromotionRule",
    "Query",
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
    "query_of",
    "stage_config_of",
]
