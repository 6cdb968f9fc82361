"""Plans: steps, how a piece of memory is anchored to one, and how an overlay changes them. Pure."""

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
"""Where a change puts its steps. Two changes of one step contradict each other where they want the same slot."""

_SLOTS: Final[tuple[Slot, ...]] = ("before", "instead", "after")
UNTYPED: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
"""What no form takes: a page is a document, and these cannot stand in one."""

_PLANS_KEPT: Final = 1_024
_STEPS_KEPT: Final = 4_096


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
class Overlaid:
    """A plan with memory applied: what was applied where, and what gave way.

    `origins` has for each step of the plan the place of the step that it was made from, or put beside, before.
    """

    plan: Plan
    applied: tuple[Applied, ...]
    conflicts: tuple[PieceConflict, ...]
    origins: tuple[int, ...]


@lru_cache(maxsize=_STEPS_KEPT)
def anchor_of(step: Step) -> Anchor:
    """What identifies a step whatever its place: its type, its intent and the digest of its content.

    Where its loop goes back to is a place, and so no part of it.
    """
    content = step.model_dump(mode="json", exclude={"loop_to", "loop_count"})
    return Anchor(type=step.type, intent=step.intent, content=digest(content).hex())


def place_of(plan: Plan, anchor: Anchor) -> int | None:
    """The one step that an anchor belongs to; None where there is none.

    The step itself goes first. A plan may have been edited since: then it is a step that says the same in other words,
    else one of the same type and intent with other content. Of several that fit alike it is the first.
    """
    for fits in (_is_it, _is_reworded, _is_edited):
        found = next((place for place, step in enumerate(plan) if fits(step, anchor)), None)
        if found is not None:
            return found
    return None


def _is_it(step: Step, anchor: Anchor) -> bool:
    return anchor_of(step) == anchor


def _is_reworded(step: Step, anchor: Anchor) -> bool:
    return anchor_of(step.model_copy(update={"intent": anchor.intent})) == anchor


def _is_edited(step: Step, anchor: Anchor) -> bool:
    return bool(anchor.intent) and (step.type, step.intent) == (anchor.type, anchor.intent)


def rewrite_id(anchor: Anchor, change: Change) -> str:
    """One name for one change at one anchor, so that the same idea found twice is one rewrite."""
    return "rw-" + digest([anchor.model_dump(mode="json"), change.model_dump(mode="json")]).hex()[:12]


def plan_bytes(plan: Plan) -> bytes:
    """The canonical bytes of a plan; their digest names it."""
    return canonical([step.model_dump(mode="json") for step in plan])


def plan_from(content: bytes) -> Plan:
    """The plan of such bytes."""
    return tuple(Step.model_validate(step) for step in json.loads(content))


def apply_change(step: Step, change: Change) -> Plan:
    """The steps that stand in place of `step`, and beside it."""
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
            further = (Step(type="click", intent=step.intent, label=label) for label in change.then)
            return (step.model_copy(update={"label": change.label}), *further)


def slot_of(change: Change) -> Slot:
    """Where a change puts its steps."""
    return change.where if isinstance(change, InsertSteps) else "instead"


def apply_overlay(plan: Plan, pieces: Sequence[Piece], *, forced: Piece | None = None) -> Overlaid:
    """Apply to each step the best piece that changes it, and the best that puts steps before it and after it.

    `forced` (a candidate on trial) goes before all others, then what is anchored to a step of this very plan, then more
    wins, then more confidence, then the id: the order of `pieces` does not matter. A piece that changes nothing is not
    applied.
    """
    own = {anchor_of(step) for step in plan}
    ranked = sorted(pieces, key=lambda each: (each.anchor not in own, -each.wins, -each.confidence, each.piece))
    if forced is not None:
        ranked = [forced, *(piece for piece in ranked if piece.piece != forced.piece)]
    return _overlaid(plan, tuple(ranked))


@lru_cache(maxsize=_PLANS_KEPT)
def _overlaid(plan: Plan, ranked: tuple[Piece, ...]) -> Overlaid:
    """The overlay of pieces in the order of their rank; the same plan and the same memory are overlaid once."""
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
    """What stands for one step: how many steps were put before it, and the place of the last one that is its own."""

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
    """All steps, loops going back to where their targets stand now: what was put before a target is not looped."""
    begins = [0, *accumulate(len(each.steps) for each in stands)]
    for each in stands:
        for number, step in enumerate(each.steps):
            if number != each.last or each.loop is None:
                yield step
                continue
            target, times = each.loop
            moved = begins[target] + stands[target].before if target < len(stands) else target
            yield step.model_copy(update={"loop_to": moved, "loop_count": times})
