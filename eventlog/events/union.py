"""The closed union of the event types. Importing it builds every event class; importing the package does not."""

from __future__ import annotations

from typing import get_args

from . import (
    champion,
    courses,
    datasets,
    delegation,
    environments,
    gate,
    memory,
    policy,
    predictions,
    recovery,
    rewards,
    rewrites,
    runs,
    suites,
    traces,
    training,
    webhooks,
)
from .event import Event

AnyEvent = (
    environments.EnvironmentProbed
    | environments.EnvironmentAdmitted
    | environments.EnvironmentRegistered
    | suites.SuiteRegistered
    | runs.SweepPlanned
    | runs.SweepEnded
    | runs.RunStarted
    | runs.InstanceReset
    | runs.StepTaken
    | runs.ModelCalled
    | runs.StepVerified
    | runs.SiteRecorded
    | runs.RunFinished
    | runs.RunMissing
    | traces.SpansKept
    | rewards.RewardGraded
    | rewards.JudgeOpined
    | recovery.RecoveryDecided
    | rewrites.RewriteProposed
    | rewrites.RewriteWon
    | rewrites.RewriteLost
    | memory.HintRecorded
    | memory.ExemplarCaptured
    | memory.SnippetLearned
    | memory.RecipeImported
    | memory.PieceProposed
    | memory.MemoryQuarantined
    | memory.PieceTried
    | memory.SubstrateChosen
    | memory.SubstrateCredited
    | courses.CourseOpened
    | courses.CourseClosed
    | courses.LoopChosen
    | datasets.DatasetFrozen
    | datasets.SliceRegistered
    | training.TrainingStarted
    | training.TrainingProgressed
    | training.TrainingFailed
    | training.CheckpointSaved
    | training.CheckpointPublished
    | training.BaseAdded
    | gate.BenchmarkFrozen
    | gate.EvaluationOpened
    | gate.EvaluationLooked
    | gate.AlphaReturned
    | gate.SealedInspected
    | gate.VerdictReached
    | champion.ChampionPointed
    | champion.ArtifactDeployed
    | champion.DeploymentFailed
    | delegation.LoopOpened
    | delegation.IterationDecided
    | delegation.WorkerReturned
    | delegation.BudgetReserved
    | delegation.BudgetSettled
    | delegation.StallSignalled
    | delegation.StrategySwitched
    | delegation.CompletionRejected
    | delegation.EscalationAsked
    | delegation.EscalationAnswered
    | delegation.ToolForged
    | delegation.SkillSaved
    | delegation.LoopClosed
    | predictions.RunRequested
    | predictions.RunCancelled
    | predictions.RunTermsSet
    | policy.PriceBookSet
    | policy.RunsWithdrawn
    | policy.EventsDisowned
    | policy.SubjectErased
    | policy.TokenIssued
    | policy.TokenRevoked
    | webhooks.WebhookAdded
    | webhooks.WebhookRemoved
    | webhooks.WebhookAttempted
)

EVENT_TYPES: dict[str, type[Event]] = {kind.__name__: kind for kind in get_args(AnyEvent)}
