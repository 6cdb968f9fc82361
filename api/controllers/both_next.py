"""Choose which of both loops has the next turn, by what each gained for its cost. Pure and without a draw.

The rule is optimism in the face of uncertainty: a loop is worth what it gained lately for what that cost, and a share
more, the less it has cost in all. So one that gained nothing gets a further turn once the other has cost enough.
"""

from __future__ import annotations

from collections.abc import Collection
from fractions import Fraction
from typing import Final

from eventlog.events import CourseLoop, LoopChosen, LoopReason, LoopRecord
from gate.figures import decimal, dollars

OPTIMISM: Final = 100_000
"""Gain in millionths of mean score that a loop is believed to be good for, whatever it has cost so far."""

KEEP: Final = 500_000
"""Millionths of itself that a turn counts after the next one of its loop."""

_WHOLE: Final = 1_000_000


def other_loop(loop: CourseLoop) -> CourseLoop:
    """The other one of both loops."""
    return "slow" if loop == "fast" else "fast"


def record_of(chosen: LoopChosen, loop: CourseLoop) -> LoopRecord:
    """The record of a loop that a choice was made from."""
    return chosen.fast if loop == "fast" else chosen.slow


def credit_turn(record: LoopRecord, gain: int, cost: int, keep: int = KEEP) -> LoopRecord:
    """The record of a loop after a turn that gained so much (millionths of mean score) for a cost (micro-dollars)."""
    return LoopRecord(
        course=record.course,
        turns=record.turns + 1,
        cost=record.cost + cost,
        recent_gain=record.recent_gain * keep // _WHOLE + gain,
        recent_cost=record.recent_cost * keep // _WHOLE + cost,
    )


def turn_cost(cost: int | None, other: LoopRecord) -> int:
    """What a turn counts as, in micro-dollars: one whose cost is not known, as a mean turn of the other loop."""
    return other.cost // max(1, other.turns) if cost is None else cost


def worth_of(record: LoopRecord, optimism: int = OPTIMISM) -> Fraction:
    """What a further turn of a loop is worth, in millionths of mean score for a micro-dollar."""
    recent = Fraction(record.recent_gain, max(1, record.recent_cost))
    return recent + Fraction(optimism, max(1, record.cost))


def choose_loop(
    fast: LoopRecord, slow: LoopRecord, *, ended: Collection[CourseLoop], lacks_base: bool = False
) -> tuple[CourseLoop, LoopReason] | None:
    """Choose the loop of the next turn, and why; None if both have ended. Of equal ones the fast loop goes first.

    The slow loop `lacks_base` where its first base model would be made from what the fast loop improves. Then it waits
    for a gain of the fast loop, or its end.
    """
    if len(ended) > 1:
        return None
    if ended:
        return ("slow" if "fast" in ended else "fast"), "other_ended"
    if lacks_base and not slow.turns and not fast.recent_gain:
        return "fast", "no_base"
    if not fast.turns or not slow.turns:
        return ("slow" if fast.turns else "fast"), "untried"
    return ("fast" if worth_of(fast) >= worth_of(slow) else "slow"), "worth"


def describe_choice(chosen: LoopChosen, why_ended: str | None = None) -> str:
    """A sentence that says which loop has the turn and why. `why_ended` is why the other one has ended."""
    other = other_loop(chosen.loop)
    match chosen.reason:
        case "other_ended":
            return f"the {other} loop has ended: {why_ended}; continuing with the {chosen.loop} loop"
        case "no_base":
            return "the fast loop plays: the slow one has no base model yet, and learns the first one from its plans"
        case "untried":
            return f"the {chosen.loop} loop plays: it has not had a turn yet"
        case "worth":
            records = [record_of(chosen, loop) for loop in (chosen.loop, other)]
            own, others = (_describe_record(record) for record in records)
            said = f"the {chosen.loop} loop plays: {own}, against {others} by the {other} one"
            recent = [worth_of(record, 0) for record in records]
            return said if recent[0] > recent[1] else f"{said}; it has cost too little in all to be given up"


def _describe_record(record: LoopRecord) -> str:
    return f"{decimal(record.recent_gain)} gained lately for {dollars(record.recent_cost)}"
