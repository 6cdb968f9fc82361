"""Lessons: pieces of memory that are matched by their occasion, and when a step is like it. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from pydantic import TypeAdapter

from eventlog.chain import digest
from eventlog.events import Change, InsertSteps, Occasion, PieceKind, Step

from ..plans import Piece, Plan, anchor_of, apply_change
from .piece_content import page_pattern
from .ranking import content_words, word_share
from .similarity import LEAST_LIKENESS, Embeddings

CHANGE: Final[TypeAdapter[Change]] = TypeAdapter(Change)
LEAST_SHARE: Final = 500_000
"""How much of an occasion's words a step has to have, in millionths, where it does not say the very same."""

_KEEPS_PAGE: Final = frozenset({"fill_field", "select_option"})
_PREFIXES: Final[dict[PieceKind, str]] = {"hint": "hint", "exemplar": "ex", "snippet": "sn", "recipe": "rc"}


@dataclass(frozen=True, slots=True)
class OccasionPiece:
    """A hint, exemplar, snippet or recipe. `wins` and `rank` (micro) decide between two that fit a step alike.

    `embeddings` is the model that it is matched by beside its words: one for all that is remembered together, or None.
    """

    piece: str
    kind: PieceKind
    occasion: Occasion
    change: Change
    text: str
    title: str
    wins: int
    rank: int
    embeddings: Embeddings | None = field(default=None, compare=False, repr=False)

    @property
    def is_put_in(self) -> bool:
        """Whether it puts steps beside a step, and changes none."""
        return isinstance(self.change, InsertSteps)

    @property
    def words(self) -> str:
        """What it is ranked by."""
        return f"{self.occasion.intent} {self.title} {self.text}"

    def at(self, plan: Plan, place: int) -> Piece:
        """The piece of one step that it is."""
        return Piece(self.piece, anchor_of(plan[place]), self.change, self.wins, self.rank, self.kind)


AnyPiece = Piece | OccasionPiece
"""What memory holds: pieces that belong to one step, and lessons that fit any that is like their occasion."""


def lesson_id(kind: PieceKind, occasion: Occasion, change: Change) -> str:
    """One name for one change on one occasion, so that what was learned twice is one piece."""
    content = [occasion.model_dump(mode="json"), change.model_dump(mode="json")]
    return f"{_PREFIXES[kind]}-{digest(content).hex()[:12]}"


def text_and_change(content: bytes) -> tuple[str, Change]:
    """What a piece's content holds. Raises ValueError for bytes of another form."""
    found = json.loads(content)
    return str(found["text"]), CHANGE.validate_python(found["change"], strict=False)


def occasion_at(environment: str, plan: Plan, place: int) -> Occasion:
    """The occasion that a step of a plan is, with the page that it is taken on as far as the plan says."""
    step = plan[place]
    return Occasion(environment=environment, type=step.type, intent=step.intent, page=planned_page(plan, place))


def planned_page(plan: Plan, place: int) -> str:
    """The pattern of the page on which a step is taken; empty where the plan does not say."""
    for step in reversed(plan[:place]):
        if step.type == "navigate":
            return page_pattern(step.url or "")
        if step.type not in _KEEPS_PAGE:
            return ""
    return ""


def fits(lesson: OccasionPiece, environment: str, plan: Plan, place: int) -> bool:
    """Whether a step is like the occasion of a lesson, and the lesson would change it.

    A step that says the very same is like it, whatever page it is on: addresses drift. Steps that are put in are not
    put in twice: not where the plan has one of them already.
    """
    step, occasion = plan[place], lesson.occasion
    if (occasion.environment, occasion.type) != (environment, step.type):
        return False
    if isinstance(lesson.change, InsertSteps):
        has_one = any(does(one) == does(other) for one in lesson.change.steps for other in plan)
    else:
        has_one = apply_change(step, lesson.change) == (step,)
    if has_one:
        return False
    if occasion.intent == step.intent:
        return True
    said = f"{step.intent} {step.url or ''}"
    has_words = not occasion.intent or (
        bool(content_words(occasion.intent)) and word_share(occasion.intent, said) >= LEAST_SHARE
    )
    is_alike = has_words or _means_the_same(lesson, step)
    return is_alike and pages_agree(occasion.page, planned_page(plan, place))


def _means_the_same(lesson: OccasionPiece, step: Step) -> bool:
    model = lesson.embeddings
    return model is not None and model.likeness(lesson.occasion.intent, step.intent) >= LEAST_LIKENESS


def pages_agree(one: str, other: str) -> bool:
    """Whether two patterns can be of one page; an empty one is of any."""
    if not one or not other:
        return True
    parts, others = one.strip("/").split("/"), other.strip("/").split("/")
    return len(parts) == len(others) and all(
        "*" in {part, its} or part == its for part, its in zip(parts, others, strict=True)
    )


def does(step: Step) -> tuple[str | None, ...]:
    """What a step does, whatever it is for."""
    return (step.type, step.url, step.label, step.value)


Read = Callable[[str], bytes | None]
"""Reads the content of a piece by its address; None where it was erased."""
