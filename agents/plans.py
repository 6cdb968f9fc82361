"""Plans: steps, how a rewrite is anchored to one, and how an overlay changes them. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from eventlog.chain import canonical, digest
from eventlog.events import (
    Anchor,
    Applied,
    Change,
    EditStep,
    FollowLink,
    InsertSteps,
    PieceKind,
    PreferTarget,
    ReplaceUrl,
    Step,
)

Plan = tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of memory at the step that it changes; `wins` and `confidence` (micro) decide between two of one step."""

    piece: str
    anchor: Anchor
    change: Change
    wins: int
    confidence: int
    kind: PieceKind = "rewrite"


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two pieces wanted the same step: `kept` was applied, `dropped` was not."""

    step: int
    kept: str
    dropped: str


@dataclass(frozen=True, slots=True)
class Overlaid:
    """A plan with memory applied: what was applied where, and what gave way."""

    plan: Plan
    applied: tuple[Applied, ...]
    conflicts: tuple[Conflict, ...]


def anchor_of(step: Step) -> Anchor:
    """What identifies a step whatever its place: its type, its intent and the digest of its content."""
    return Anchor(type=step.type, intent=step.intent, content=digest(step.model_dump(mode="json")).hex())


def rewrite_id(anchor: Anchor, change: Change) -> str:
    """One name for one change at one anchor, so that the same idea found twice is one rewrite."""
    return "rw-" + digest([anchor.model_dump(mode="json"), change.model_dump(mode="json")]).hex()[:12]


def plan_bytes(plan: Plan) -> bytes:
    """The canonical bytes of a plan; their digest names it."""
    return canonical([step.model_dump(mode="json") for step in plan])


def plan_from(content: bytes) -> Plan:
    """The plan of such bytes."""
    return tuple(Step.model_validate(step) for step in json.loads(content))


def changed(step: Step, change: Change) -> Plan:
    """The steps that stand in place of `step`."""
    match change:
        case ReplaceUrl():
            return (step.model_copy(update={"url": change.url}),)
        case FollowLink():
            return (
                Step(type="navigate", intent=f"open {change.page}, to {step.intent}", url=change.page),
                Step(type="click", intent=step.intent, label=change.label),
            )
        case EditStep():
            return (change.step,)
        case InsertSteps():
            return (*change.steps, step) if change.where == "before" else (step, *change.steps)
        case PreferTarget():
            return (step.model_copy(update={"label": change.label}),)


def apply_overlay(plan: Plan, pieces: Sequence[Piece], *, forced: Piece | None = None) -> Overlaid:
    """Apply the best piece of each anchored step; `forced` (a candidate on trial) goes before all others.

    More wins go first, then more confidence, then the id: the order of `pieces` does not matter.
    """
    ranked = sorted(pieces, key=lambda piece: (-piece.wins, -piece.confidence, piece.piece))
    if forced is not None:
        ranked = [forced, *(piece for piece in ranked if piece.piece != forced.piece)]
    steps: list[Step] = []
    applied: list[Applied] = []
    conflicts: list[Conflict] = []
    for index, step in enumerate(plan):
        fitting = [piece for piece in ranked if piece.anchor == anchor_of(step)]
        steps += changed(step, fitting[0].change) if fitting else (step,)
        applied += [Applied(piece=piece.piece, kind=piece.kind, step=index) for piece in fitting[:1]]
        conflicts += [Conflict(index, fitting[0].piece, piece.piece) for piece in fitting[1:]]
    return Overlaid(tuple(steps), tuple(applied), tuple(conflicts))
