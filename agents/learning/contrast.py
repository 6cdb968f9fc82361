"""Contrast: what a sibling that passed did where one that failed went another way, as a lesson in words. Pure.

Needs no model. Two siblings of a group begin in the same instance, so what one of them did differently is the first
suspect of why they ended differently; trials decide whether it helps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from eventlog.events import Occasion, Step, Template

from .capture import Captured
from .occasions import does
from .piece_content import page_pattern
from .quoting import LONGEST, clean_text
from .step_words import say_step

MOST_OF_A_TASK: Final = 2
"""Most lessons by contrast per task and sweep."""

MOVES: Final = 3
"""Most steps of the passing run that a lesson says."""


@dataclass(frozen=True, slots=True)
class Move:
    """One action of a model's run, the path of the page that it was taken on ("" if unknown), and if it succeeded."""

    step: Step
    page: str
    is_ok: bool


@dataclass(frozen=True, slots=True)
class Transcript:
    """The actions of a model's run in one group, whether its oracle passed it, and its reward in millionths.

    `seen` is what the model was told before its last answer; empty if that was not read.
    """

    run: str
    template: str
    group: str
    passed: bool
    reward: int
    moves: tuple[Move, ...]
    seen: str = ""


def contrast(environment: str, template: Template, transcripts: Iterable[Transcript]) -> tuple[Captured, ...]:
    """Lessons of a task's groups in which siblings ended differently, those first that most groups show.

    Each is an exemplar in words. The order of the transcripts does not matter.
    """
    found: dict[str, Captured] = {}
    groups: dict[str, list[Transcript]] = {}
    shown: Counter[str] = Counter()
    for each in sorted(transcripts, key=lambda each: each.run):
        if each.template == template.template_id:
            groups.setdefault(each.group, []).append(each)
    for siblings in groups.values():
        lessons = {lesson.name: lesson for lesson in _of_group(environment, template, siblings)}
        shown.update(lessons.keys())
        for name, lesson in lessons.items():
            before = found.setdefault(name, lesson)
            if (lesson.reward, before.runs[0]) > (before.reward, lesson.runs[0]):
                found[name] = lesson
    best = sorted(found, key=lambda name: (-shown[name], -found[name].reward, name))
    return tuple(found[name] for name in best[:MOST_OF_A_TASK])


def find_parting(one: Sequence[Move], other: Sequence[Move]) -> int:
    """The number of the first move at which two runs did different things."""
    pairs = zip(one, other, strict=False)
    return next(
        (number for number, (mine, its) in enumerate(pairs) if does(mine.step) != does(its.step)),
        min(len(one), len(other)),
    )


def _of_group(environment: str, template: Template, siblings: Sequence[Transcript]) -> Iterator[Captured]:
    """The lesson of each failed sibling, beside the passed one that went its way for longest."""
    passed = [each for each in siblings if each.passed]
    for failed in (each for each in siblings if not each.passed):
        if not passed:
            return
        nearest = min(passed, key=lambda each: (-find_parting(each.moves, failed.moves), -each.reward, each.run))
        place = find_parting(nearest.moves, failed.moves)
        lesson = _lesson(environment, template, nearest, place, failed)
        if lesson is not None:
            yield lesson


def _lesson(
    environment: str, template: Template, passed: Transcript, place: int, failed: Transcript
) -> Captured | None:
    """Actions of the passing run from the parting until it was back on the failing one's way; None if no words.

    A later step that cannot be said is left out. Without the first one the others would mislead.
    """
    others = {does(move.step) for move in failed.moves[place:]}
    moves: list[Move] = []
    said: list[str] = []
    for move in passed.moves[place:]:
        if len(moves) == MOVES or (moves and does(move.step) in others):
            break
        words = say_step(move.step, template.instruction) if move.is_ok else None
        if words is not None:
            moves.append(move)
            said.append(words)
        elif move.is_ok and not moves:
            return None
    if not moves:
        return None
    page = page_pattern(moves[0].page)
    where = f"On {page}" if page else "At the start" if place == 0 else "Next"
    title = clean_text(f"{where}: {', then '.join(said)}", LONGEST - 60)
    occasion = Occasion(
        environment=environment,
        type=moves[0].step.type,
        intent=template.instruction,
        page=page,
        cluster=template.cluster,
    )
    text = f"{title}. A run that passed did so; one that failed did not."
    return Captured("exemplar", occasion, None, title, text, (passed.run,), passed.reward)
