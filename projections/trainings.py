"""Trainings: every started training stage, its progress and its result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import field
from msgspec.structs import replace

from eventlog import events
from eventlog.chain import digest

from .engine.projection import EventRow, Fold, FoldState

if TYPE_CHECKING:
    from eventlog.events import StageConfig


def training_name(dataset: str, base: str, parent: str | None, config: StageConfig) -> str:
    """Name of a stage, determined by dataset, base, parent (digests) and configuration."""
    made_of = {"dataset": dataset, "base": base, "parent": parent, "config": config.model_dump(mode="json")}
    return f"{config.algorithm}-{digest(made_of).hex()[:16]}"


class TrainingState(FoldState, frozen=True, kw_only=True):
    """A training stage. `status` is started, failed or saved; `attempts` is how often it was started.

    `step` and `metrics` are those of the last recorded step. `error` and `message` say why it failed.
    """

    training: str = ""
    status: str = "started"
    attempts: int = 0
    dataset: str = ""
    upto: int = 0
    base: str = ""
    parent: str | None = None
    config: dict[str, Any] = field(default_factory=dict)
    step: int = 0
    of: int = 0
    metrics: dict[str, Any] = field(default_factory=dict)
    error: str | None = None
    message: str | None = None
    checkpoint: str | None = None
    started_since: int = 0
    since: int = 0

    def stage_config(self) -> StageConfig:
        """The configuration of the stage."""
        return events.stage_config_of(self.config)


def _fold(state: TrainingState, row: EventRow) -> TrainingState:
    match row.type:
        case "TrainingStarted":
            return TrainingState(
                training=row.text("training"),
                attempts=row.number("attempt"),
                dataset=row.text("dataset"),
                upto=row.number("upto"),
                base=row.text("base"),
                parent=row.maybe_text("parent"),
                config=row.record("config"),
                started_since=state.started_since or row.position,
                since=row.position,
            )
        case "TrainingProgressed":
            step, of, metrics = row.number("step"), row.number("of"), row.record("metrics")
            return replace(state, step=step, of=of, metrics=metrics, since=row.position)
        case "TrainingFailed":
            error, message = row.text("error"), row.text("message")
            return replace(state, status="failed", error=error, message=message, since=row.position)
        case _:
            return replace(state, status="saved", checkpoint=row.text("checkpoint"), since=row.position)


TRAININGS = Fold(
    name="trainings",
    version=2,
    reads={
        "TrainingStarted": ("training", "attempt", "dataset", "upto", "base", "parent", "config"),
        "TrainingProgressed": ("training", "step", "of", "metrics"),
        "TrainingFailed": ("training", "error", "message"),
        "CheckpointSaved": ("training", "checkpoint"),
    },
    initial=TrainingState(),
    key=lambda row: row.text("training"),
    fold=_fold,
)
