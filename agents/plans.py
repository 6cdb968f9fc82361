"""Plans: their steps, the anchors of memory pieces, and overlays that change the steps. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Final, Literal

from eventlog.chain import canonical, digest
from eventlog.events import (
    Anchor,
    Applied,
    Change,
    EditStep,
    FollowLink,
    InsertSteps,
    PieceConflict,
    PieceKind,
    PreferTarget,
    ReplaceUrl,
    Step,
)

Plan = tuple[Step, ...]

Slot = Literal["before", "instead", "after"]
"""Place of the steps of a change. Two changes of one step conflict if they use the same slot."""

_SLOTS: Final[tuple[Slot, ...]] = ("before", "instead", "after")
UNTYPED: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
"""Characters that no form takes, because an HTML document cannot contain them."""

_PLANS_KEPT: Final = 1_024
_STEPS_KEPT: Final = 4_096


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of memory and its anchor. `wins` and `confidence` (micro-units) rank the pieces of one step."""

    piece: str
    anchor: Anchor
    change: Change
    wins: int
    confidence: int
    kind: PieceKind = "rewrite"


@dataclass(frozen=True, slots=True)
class Overlaid:
    """A plan with memory applied: the applied pieces with their steps, and the conflicts between pieces.

    `origins` gives for each step the place in the original plan of the step it comes from or was inserted next to.
    """

    plan: Plan
    applied: tuple[Applied, ...]
    conflicts: tuple[PieceConflict, ...]
    origins: tuple[int, ...]


@lru_cache(maxsize=_STEPS_KEPT)
def anchor_of(step: Step) -> Anchor:
    """Anchor of a step, independent of its place: its type, its intent and the digest of its content.

    The digest excludes the target and count of a loop, because the target is a place.
    """
    content = step.model_dump(mode="json", exclude={"loop_to", "loop_count"})
    return Anchor(type=step.type, intent=step.intent, content=digest(content).hex())


def place_of(plan: Plan, anchor: Anchor) -> int | None:
    """Place of the step that an anchor belongs to; None if there is none.

    An identical step is preferred. Otherwise the plan was edited: then a step with another intent but the same content
    is taken, else one with the same type and intent but other content. Among equals it is the first.
    """
    for fits in (_is_it, _is_reworded, _is_edited):
        found = next((place for place, step in enumerate(plan) if fits(step, anchor)), None)
        if found is not None:
            return found
    return None


def _is_it(step: Step, anchor: Anchor) -> bool:
    return (step.type, step.intent) == (anchor.type, anchor.intent) and anchor_of(step) == anchor


def _is_reworded(step: Step, anchor: Anchor) -> bool:
    return step.type == anchor.type and anchor_of(step.model_copy(update={"intent": anchor.intent})) == anchor


def _is_edited(step: Step, anchor: Anchor) -> bool:
    return bool(anchor.intent) and (step.type, step.intent) == (anchor.type, anchor.intent)


def rewrite_id(anchor: Anchor, change: Change) -> str:
    """Id of a change at an anchor. The same change at the same anchor has the same id."""
    return "rw-" + digest([anchor.model_dump(mode="json"), change.model_dump(mode="json")]).hex()[:12]


def plan_bytes(plan: Plan) -> bytes:
    """The canonical bytes of a plan; their digest names it."""
    return canonical([step.model_dump(mode="json") for step in plan])


def plan_from(content: bytes) -> Plan:
    """Parse a plan from its canonical bytes."""
    return tuple(Step.model_validate(step) for step in json.loads(content))


def apply_change(step: Step, change: Change) -> Plan:
    """The steps that replace `step` after a change, including those inserted next to it."""
    match change:
        case ReplaceUrl():
            return (step.model_copy(update={"url": change.url}),)
        case FollowLink():
            return (
                Step(type="navigate", intent=f"open {change.page}, to {step.intent}", url=change.page),
                Step(type="click", intent=step.intent, label=change.label),
            )
        case EditStep():
            return (change.step, *change.then)
        case InsertSteps():
            return (*change.steps, step) if change.where == "before" else (step, *change.steps)
        case PreferTarget():
            further = (Step(type="click", intent=step.intent, label=label) for label in change.then)
            return (step.model_copy(update={"label": change.label}), *further)


def slot_of(change: Change) -> Slot:
    """Slot in which a change puts its steps."""
    return change.where if isinstance(change, InsertSteps) else "instead"


def apply_overlay(plan: Plan, pieces: Sequence[Piece], *, forced: Piece | None = None) -> Overlaid:
    """Apply to each step the best piece of each slot: before it, instead of it and after it.

    `forced` (a candidate on trial) ranks first, then pieces whose anchor is a step of exactly this plan, then more
    wins, then more confidence, then the id. The order of `pieces` does not matter. A piece that changes nothing is not
    applied.
    """
    own = {anchor_of(step) for step in plan}
    ranked = sorted(pieces, key=lambda each: (each.anchor not in own, -each.wins, -each.confidence, each.piece))
    if forced is not None:
        ranked = [forced, *(piece for piece in ranked if piece.piece != forced.piece)]
    return _overlaid(plan, tuple(ranked))


@lru_cache(maxsize=_PLANS_KEPT)
def _overlaid(plan: Plan, ranked: tuple[Piece, ...]) -> Overlaid:
    """The overlay of ranked pieces, cached for equal plans and pieces."""
    chosen: dict[tuple[int, Slot], Piece] = {}
    conflicts: list[PieceConflict] = []
    for piece in ranked:
        place = place_of(plan, piece.anchor)
        if place is None or apply_change(plan[place], piece.change) == (plan[place],):
            continue
        kept = chosen.setdefault((place, slot_of(piece.change)), piece)
        if kept is not piece:
            conflicts.append(PieceConflict(step=place, kept=kept.piece, dropped=piece.piece))
    stands = [_resolve_target(place, step, chosen) for place, step in enumerate(plan)]
    applied = (
        Applied(piece=chosen[place, slot].piece, kind=chosen[place, slot].kind, step=place)
        for place in range(len(plan))
        for slot in _SLOTS
        if (place, slot) in chosen
    )
    return Overlaid(
        plan=tuple(_resolve_loops(stands)),
        applied=tuple(applied),
        conflicts=tuple(sorted(conflicts, key=lambda conflict: conflict.step)),
        origins=tuple(place for place, each in enumerate(stands) for _ in each.steps),
    )


@dataclass(frozen=True, slots=True)
class _Standing:
    """The steps made from one step, the number inserted before it, and the index of the last that replaces it."""

    steps: Plan
    before: int
    last: int
    loop: tuple[int, int] | None


def _resolve_target(place: int, step: Step, chosen: Mapping[tuple[int, Slot], Piece]) -> _Standing:
    def put(slot: Slot, otherwise: Callable[[], Plan]) -> Plan:
        piece = chosen.get((place, slot))
        return otherwise() if piece is None else _put(step, piece.change)

    before, own, after = put("before", tuple), put("instead", lambda: (step,)), put("after", tuple)
    loop = None if step.loop_to is None or step.loop_count is None else (step.loop_to, step.loop_count)
    steps = tuple(each.model_copy(update={"loop_to": None, "loop_count": None}) for each in (*before, *own, *after))
    return _Standing(steps, len(before), len(before) + len(own) - 1, loop)


def _put(step: Step, change: Change) -> Plan:
    """The steps that a change brings to its slot."""
    return change.steps if isinstance(change, InsertSteps) else apply_change(step, change)


def _resolve_loops(stands: Sequence[_Standing]) -> Iterator[Step]:
    """All steps, with loop targets at their new places. Steps inserted before a target are not repeated."""
    begins = [0, *accumulate(len(each.steps) for each in stands)]
    for each in stands:
        for number, step in enumerate(each.steps):
            if number != each.last or each.loop is None:
                yield step
                continue
            target, times = each.loop
            moved = begins[target] + stands[target].before if target < len(stands) else target
            yield step.model_copy(update={"loop_to": moved, "loop_count": times})
