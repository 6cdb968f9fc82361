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
)
from .models import CheckName, ModelRole, Said, Sampling
from .plans import Spec, Step, StepType, TaskSpec, Template, places, unrolled
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
    Conflict,
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
    | DatasetFrozen
    | SliceRegistered
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
    "Confirmation",
    "Conflict",
    "DatasetFrozen",
    "Decision",
    "DpoQuery",
    "EditStep",
    "EnvironmentAdmitted",
    "EnvironmentProbed",
    "EvaluationOpened",
    "Event",
    "ExemplarCaptured",
    "Floor",
    "FollowLink",
    "FrozenModel",
    "GrpoQuery",
    "HintRecorded",
    "InsertSteps",
    "InstanceReset",
    "Interval",
    "JudgeOpined",
    "Memory",
    "MemoryQuarantined",
    "MissingCause",
    "ModelCalled",
    "ModelRole",
    "Occasion",
    "PairedRule",
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
    "SftQuery",
    "Share",
    "SliceRegistered",
    "SnippetLearned",
    "Spec",
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
    "Trials",
    "Usage",
    "Verdict",
    "VerdictReached",
    "Visible",
    "places",
    "query_of",
    "unrolled",
]
