"""A change that recovery thought of: of which step, in which mode, from where; and as a fact."""

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
from ..piece_content import MEDIA_TYPE, content_bytes, hint_id

Mode = Literal["add_hint", "edit_step", "insert_steps"]


@dataclass(frozen=True, slots=True)
class Proposal:
    """A change of one step, where it came from, and how likely it looked before it was tried (micro).

    A hint belongs to an `occasion`, and everything else to its anchor. `place` is that of the step in its plan.
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
        """The name of the piece of memory that it would be."""
        if self.occasion is None:
            return rewrite_id(self.anchor, self.change)
        return hint_id(self.occasion, self.change)

    @property
    def piece(self) -> Piece:
        """The piece as an overlay takes it."""
        kind: PieceKind = "rewrite" if self.occasion is None else "hint"
        return Piece(self.name, self.anchor, self.change, wins=0, confidence=self.confidence, kind=kind)

    def event(self, run: str, rule: PromotionRule) -> RewriteProposed | HintRecorded:
        """The proposal as a fact, with the rule that will decide it."""
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
        """The fact of one without an occasion."""
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
        """What it says in words, with its change: what a hint holds."""
        return Blob(MEDIA_TYPE, content_bytes(change_sentence(self.anchor.intent, self.change), self.change))


def change_sentence(intent: str, change: Change) -> str:
    """What a change says."""
    match change:
        case PreferTarget():
            return f"To {intent}, go for “{'”, then “'.join((change.label, *change.then))}”."
        case ReplaceUrl():
            return f"To {intent}, open {change.url}."
        case FollowLink():
            return f"To {intent}, open {change.page} and follow “{change.label}”."
        case EditStep():
            return (
                f"To {intent}, {change.step.type} “{change.step.label or change.step.url}” {change.step.value or ''}."
            )
        case InsertSteps():
            steps = ", ".join(step.intent for step in change.steps)
            return f"{change.where.capitalize()} you {intent}: {steps}."
