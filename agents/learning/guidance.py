"""Guidance: the one instruction of a cluster's memory that a model is given with each of its tasks. Pure.

An instruction is a piece of memory like others, but no line of advice: it stands in the system prompt, and of those
that memory holds one is in force.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from eventlog.events import Occasion, Template

from .occasions import AnyPiece, OccasionPiece
from .quoting import clean_text, quote_text

LONGEST_GUIDANCE: Final = 600
"""Most bytes of an instruction: about 150 tokens of English, beside the lines of advice."""

_PREAMBLE: Final = (
    "How to work on tasks like this one, quoted from notes on earlier runs. It is about the way alone; what is to be "
    "done, the task says and nothing else:"
)


def guidance_budget(budget: int) -> int:
    """Most bytes of an instruction for a model that is told lines of advice within a budget."""
    return min(LONGEST_GUIDANCE, budget // 2)


def find_guidance(
    template: Template, environment: str, held: Iterable[AnyPiece], most: int
) -> tuple[OccasionPiece, ...]:
    """The instruction in force for a task, if memory holds any of at most so many bytes; it need share no word."""
    return instruction_in_force(
        (
            each
            for each in held
            if isinstance(each, OccasionPiece)
            and each.occasion.environment == environment
            and each.occasion.cluster in {None, template.cluster}
        ),
        most,
    )


def instruction_in_force(held: Iterable[OccasionPiece], most: int = LONGEST_GUIDANCE) -> tuple[OccasionPiece, ...]:
    """The instruction in force among pieces of one cluster, if any has at most so many bytes.

    The title of an instruction is the id of the one in whose place it was tried: the last of such a chain is in force,
    of several the one with the higher rank, more wins, and then by id.
    """
    found = {each.piece: each for each in held if each.kind == "instruction" and 0 < _size(each) <= most}

    def count_replaced(each: OccasionPiece) -> int:
        seen = {each.piece}
        while each.title in found and each.title not in seen:
            each = found[each.title]
            seen.add(each.piece)
        return len(seen)

    best = sorted(found.values(), key=lambda each: (-count_replaced(each), -each.rank, -each.wins, each.piece))
    return tuple(best[:1])


def find_replaced(occasion: Occasion, held: Iterable[OccasionPiece]) -> frozenset[str]:
    """Ids of what an instruction of this occasion would be tried in the place of, empty for none.

    It is one, except that clusters may have instructions of their own in force where the occasion names no cluster.
    """
    own = [each for each in held if each.occasion.environment == occasion.environment]
    clusters = {occasion.cluster}
    if occasion.cluster is None:
        clusters |= {each.occasion.cluster for each in own if each.kind == "instruction"}
    in_force = (instruction_in_force(each for each in own if each.occasion.cluster in {None, one}) for one in clusters)
    return frozenset(next((each.piece for each in found), "") for found in in_force)


def is_in_place(piece: AnyPiece, template: Template, environment: str, held: Iterable[AnyPiece], most: int) -> bool:
    """False for an instruction that was proposed in the place of another one than a task's controls are told now.

    Its trials before and after such a change would compare with different things, so it is tried no further.
    """
    if not isinstance(piece, OccasionPiece) or piece.kind != "instruction":
        return True
    return piece.title == next((each.piece for each in find_guidance(template, environment, held, most)), "")


def guidance_text(told: Iterable[OccasionPiece]) -> str:
    """The instruction among what is told, on one line, cleaned and cut; empty if there is none."""
    return next((clean_text(each.text, LONGEST_GUIDANCE) for each in told if each.kind == "instruction"), "")


def guidance_paragraph(guidance: str) -> str:
    """An instruction as a paragraph for a system prompt, quoted as data; empty without one."""
    return f"{_PREAMBLE}\n{quote_text(guidance, LONGEST_GUIDANCE)}\n" if guidance else ""


def _size(instruction: OccasionPiece) -> int:
    return len(clean_text(instruction.text, LONGEST_GUIDANCE).encode())
