"""Change of a plan that recovery proposes, and its event."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from eventlog.blobs import Blob
from eventlog.events import (
    Anchor,
    Change,
    EditStep,
    FollowLink,
    HintRecorded,
    InsertSteps,
    Occasion,
    PieceKind,
    PreferTarget,
    PromotionRule,
    ReplaceUrl,
    RewriteProposed,
    RewriteSource,
)

from ...plans import Piece, rewrite_id
from ..occasions import lesson_id
from ..piece_content import MEDIA_TYPE, content_bytes

Mode = Literal["add_hint", "edit_step", "insert_steps"]


@dataclass(frozen=True, slots=True)
class Proposal:
    """A change of one step, its source, and its confidence before it was tried (millionths).

    A hint is matched by its `occasion`, every other change by its anchor. `place` is the step's index in its plan.
    """

    anchor: Anchor
    change: Change
    source: RewriteSource
    confidence: int
    mode: Mode = "edit_step"
    occasion: Occasion | None = None
    place: int = 0

    @property
    def name(self) -> str:
        """Id of the proposed piece of memory."""
        if self.occasion is None:
            return rewrite_id(self.anchor, self.change)
        return lesson_id("hint", self.occasion, self.change)

    @property
    def piece(self) -> Piece:
        """The proposed piece, as input of an overlay."""
        kind: PieceKind = "rewrite" if self.occasion is None else "hint"
        return Piece(self.name, self.anchor, self.change, wins=0, confidence=self.confidence, kind=kind)

    def event(self, run: str, rule: PromotionRule) -> RewriteProposed | HintRecorded:
        """Event of the proposal under this promotion rule."""
        if self.occasion is None:
            return self.rewrite(run, rule)
        return HintRecorded(
            hint=self.name,
            occasion=self.occasion,
            content=self.content.digest,
            rule=rule,
            run=run,
            source="recovery",
            confidence=self.confidence,
        )

    def rewrite(self, run: str, rule: PromotionRule) -> RewriteProposed:
        """Event of a proposal without an occasion."""
        return RewriteProposed(
            rewrite=self.name,
            anchor=self.anchor,
            change=self.change,
            rule=rule,
            run=run,
            source=self.source,
            confidence=self.confidence,
        )

    @property
    def content(self) -> Blob:
        """Blob of the change and its description, as a hint stores it."""
        return Blob(MEDIA_TYPE, content_bytes(change_sentence(self.anchor.intent, self.change), self.change))


def change_sentence(intent: str, change: Change) -> str:
    """Description of a change in words."""
    match change:
        case PreferTarget():
            return f"To {intent}, go for “{'”, then “'.join((change.label, *change.then))}”."
        case ReplaceUrl():
            return f"To {intent}, open {change.url}."
        case FollowLink():
            return f"To {intent}, open {change.page} and follow “{change.label}”."
        case EditStep():
            every = (change.step, *change.then)
            taken = ", then ".join(f"{each.type} “{each.label or each.url}” {each.value or ''}" for each in every)
            return f"To {intent}, {taken}."
        case InsertSteps():
            steps = ", ".join(step.intent for step in change.steps)
            return f"{change.where.capitalize()} you {intent}: {steps}."
