"""Forged events: events that their actor may not have written. One key for each, in order of position.

The holder of a token writes as `api:NAME`, and may write only what REST takes from outside. Every other actor is a
process that holds the database's password, and may write anything: its name proves nothing.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from .engine.projection import EventRow, Fold, FoldState
from .runs import OUTSIDE

OUTSIDER: Final = "api:"
"""How the actor of what a token's holder appends begins."""

NEVER_FROM_A_TOKEN: Final = (
    "EnvironmentProbed",
    "EnvironmentAdmitted",
    "EnvironmentRegistered",
    "SuiteRegistered",
    "SweepPlanned",
    "SweepEnded",
    "SpansKept",
    "StepVerified",
    "SiteRecorded",
    "JudgeOpined",
    "RecoveryDecided",
    "RewriteProposed",
    "RewriteWon",
    "RewriteLost",
    "HintRecorded",
    "ExemplarCaptured",
    "SnippetLearned",
    "RecipeImported",
    "PieceProposed",
    "MemoryQuarantined",
    "PieceTried",
    "SubstrateChosen",
    "SubstrateCredited",
    "CourseOpened",
    "CourseClosed",
    "LoopChosen",
    "DatasetFrozen",
    "SliceRegistered",
    "TrainingStarted",
    "TrainingProgressed",
    "TrainingFailed",
    "CheckpointSaved",
    "CheckpointPublished",
    "BaseAdded",
    "BenchmarkFrozen",
    "EvaluationOpened",
    "EvaluationLooked",
    "AlphaReturned",
    "SealedInspected",
    "VerdictReached",
    "ChampionPointed",
    "ArtifactDeployed",
    "DeploymentFailed",
    "LoopOpened",
    "IterationDecided",
    "WorkerReturned",
    "BudgetReserved",
    "BudgetSettled",
    "StallSignalled",
    "StrategySwitched",
    "CompletionRejected",
    "EscalationAsked",
    "EscalationAnswered",
    "ToolForged",
    "SkillSaved",
    "LoopClosed",
    "RunRequested",
    "RunCancelled",
    "RunTermsSet",
    "RunsWithdrawn",
    "SubjectErased",
    "TokenIssued",
    "TokenRevoked",
    "WebhookAdded",
    "WebhookRemoved",
    "WebhookAttempted",
)
"""The event types that the holder of a token may not have written, but for `EventsDisowned`, which no fold reads."""

_OUTSIDE_ALONE: Final = "ModelCalled"
"""The event type that the holder of a token may have written about a run from outside, and about no run of ours."""


class ForgedState(FoldState, frozen=True, kw_only=True):
    """A forged event that was not disowned; `at` is in microseconds since 1970."""

    position: int = 0
    at: int = 0
    type: str = ""
    stream: str = ""
    actor: str = ""

    @property
    def moment(self) -> datetime:
        """When the event was recorded, in UTC."""
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=self.at)


def _fold(_state: ForgedState, row: EventRow) -> ForgedState:
    return ForgedState(position=row.position, at=row.moment, type=row.type, stream=row.stream, actor=row.actor)


def forged_key(position: int) -> str:
    """Key of the event at a position; keys are in order of positions."""
    return f"{position:020d}"


def _is_forged(row: EventRow) -> bool:
    is_theirs = row.type == _OUTSIDE_ALONE and row.stream.startswith(f"run/{OUTSIDE}")
    return row.actor.startswith(OUTSIDER) and not is_theirs


FORGED = Fold(
    name="forged",
    version=2,
    reads=dict.fromkeys((*NEVER_FROM_A_TOKEN, _OUTSIDE_ALONE), ()),
    initial=ForgedState(),
    key=lambda row: forged_key(row.position) if _is_forged(row) else None,
    fold=_fold,
)
