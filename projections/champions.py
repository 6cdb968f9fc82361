"""The champion: the artifact, since when, who pointed to it and why. Its history is the rows of one key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import field

from eventlog import events

from .engine.projection import EventRow, Fold, FoldState
from .runs import recorded_artifact_name

if TYPE_CHECKING:
    from eventlog.events import Artifact

CHAMPION = "champion"


class ChampionState(FoldState, frozen=True, kw_only=True):
    """The champion pointer. `stack` holds the positions of the events to which a rollback can return, newest last."""

    artifact: dict[str, Any] = field(default_factory=dict)
    name: str = ""
    by: str = ""
    actor: str = ""
    reason: str = ""
    evaluation: str | None = None
    since: int = 0
    stack: tuple[int, ...] = ()

    def pointed_artifact(self) -> Artifact:
        """The champion artifact."""
        return events.Artifact.model_validate(self.artifact, strict=False)


def _fold(state: ChampionState, row: EventRow) -> ChampionState:
    by = row.text("by")
    return ChampionState(
        artifact=row.record("artifact"),
        name=recorded_artifact_name(row.record("artifact")),
        by=by,
        actor=row.actor,
        reason=row.text("reason"),
        evaluation=row.maybe_text("evaluation"),
        since=row.position,
        stack=state.stack[:-1] if by == "rollback" else (*state.stack, row.position),
    )


CHAMPIONS = Fold(
    name="champions",
    version=2,
    reads={"ChampionPointed": ("artifact", "by", "reason", "evaluation")},
    initial=ChampionState(),
    key=lambda _row: CHAMPION,
    fold=_fold,
)
