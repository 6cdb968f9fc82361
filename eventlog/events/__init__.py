"""The event vocabulary. Names are the storage format: they never change.

`AnyEvent` is the closed union, `EVENT_TYPES` maps stored names to classes. A module is imported on the first use of one
of its names, because building every class costs more CPU time than most commands.
"""

# ruff: noqa: F403 a type checker reads the names from their modules

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .champion import *
    from .courses import *
    from .datasets import *
    from .delegation import *
    from .environments import *
    from .event import *
    from .gate import *
    from .gate_rules import *
    from .loop_config import *
    from .memory import *
    from .models import *
    from .plans import *
    from .policy import *
    from .predictions import *
    from .recovery import *
    from .rewards import *
    from .rewrites import *
    from .runs import *
    from .suites import *
    from .traces import *
    from .training import *
    from .union import *
    from .webhooks import *

NAMES: dict[str, str] = {
    "champion": "ArtifactDeployed ChampionPointed DeploymentFailed",
    "courses": "Budget CourseClosed CourseLoop CourseOpened LoopChosen LoopReason LoopRecord",
    "datasets": (
        "AnyQuery DatasetFrozen DpoQuery Floor GrpoQuery Outside Query Refused RewardName SftQuery SliceRegistered "
        "Tokens is_asked_for query_of"
    ),
    "delegation": (
        "BudgetAmounts BudgetReserved BudgetSettled CompletionRejected DecidedKind DefectCategory "
        "EscalationAnswered EscalationAsked FoundDefect IterationDecided LoopClosed LoopOpened LoopStatus "
        "OfferedSkill OfferedTool PlannedSubtask SandboxKind SkillSaved StallSignalled StatedHypothesis "
        "StrategySwitched ToolForged WorkerReturned"
    ),
    "environments": (
        "Detail EnvironmentAdmitted EnvironmentProbed EnvironmentRegistered PageUrl ProbeOutcome ProbeResult "
        "RegisteredPool StartFingerprint TokenVariable"
    ),
    "event": ("BlobAddress Count Digest Event FrozenModel Micro Name NamesBlob ScoreMicro Whole"),
    "gate": (
        "AlphaReturned ArmSummary BenchmarkFrozen BenchmarkTask BenchmarkTemplate Confirmation Decision "
        "EvaluationLooked EvaluationOpened FamilyCheck Interval Look LookOutcome Pico SealedInspected Stratum TaskPlan "
        "Verdict VerdictReached Visible"
    ),
    "gate_rules": "CostBasis RegressionMeasure Rules Test Unit",
    "loop_config": (
        "Capability CompletionConfig CritiqueConfig EvaluationConfig HistoryConfig LoopConfig LoopLimits "
        "PlanningConfig SkillsConfig StallDetectionConfig Strategy SummaryConfig ToolsConfig"
    ),
    "memory": (
        "Artifact ChoiceReason Decay ExemplarCaptured Forgetting HintRecorded Memory MemoryQuarantined MemoryScope "
        "Occasion "
        "PieceKind PieceProposed PieceSource PieceTried ProposedKind RecipeImported SnippetLearned Substrate "
        "SubstrateChosen SubstrateCredited artifact_name"
    ),
    "models": "CheckName ModelRole Said Sampling",
    "plans": "ActionName Spec Step StepType TaskSpec Template places unroll",
    "predictions": "RunCancelled RunRequested RunTermsSet",
    "policy": "EventsDisowned PriceBookSet RunsWithdrawn SubjectErased TokenIssued TokenRevoked TokenRole",
    "recovery": "RecoveryDecided RecoveryMode RecoveryReason",
    "rewards": "JudgeOpined RewardGraded RewardTerms",
    "rewrites": (
        "Anchor Change EditStep EnvSeed FollowLink InsertSteps PairedRule PreferTarget PromotionRule ReplaceUrl "
        "RewriteLost RewriteProposed RewriteSource RewriteWon SeedsRule"
    ),
    "runs": (
        "Applied ArmName ArmRun Bias PieceConflict InstanceReset MissingCause ModelCalled RunFinished "
        "RunMissing RunStarted RunStatus Share SiteRecorded StepOutcome StepTaken StepVerified SweepEnded "
        "SweepPlanned Trials Usage"
    ),
    "suites": ("Operation SeedSpan Suite SuiteName SuitePlan SuiteRegistered SuiteSeeds SuiteTask Text"),
    "traces": "SpanId SpansKept TraceSource",
    "training": (
        "Aggregation Algorithm Amount Amount64 AnyStageConfig BaseAdded CheckpointFile CheckpointPublished "
        "CheckpointSaved DpoConfig Form "
        "GrpoConfig Lora Measured Metrics Number SftConfig StageConfig TrainingFailed TrainingProgressed "
        "TrainingStarted WarmupConfig stage_config_of"
    ),
    "union": "EVENT_TYPES AnyEvent",
    "webhooks": "AttemptOutcome SecretVariable WebhookAdded WebhookAttempted WebhookName WebhookRemoved WebhookTopic",
}
"""The names that this package exports, by the module that defines them: every public name of it."""

_MODULE_OF = {name: module for module, names in NAMES.items() for name in names.split()}


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        module = _MODULE_OF.get(name)
        if module is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = globals()[name] = getattr(import_module(f"{__name__}.{module}"), name)
        return found
