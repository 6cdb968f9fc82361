"""Occasion pieces: pieces of memory matched by their occasion, and the test of a step against an occasion. Pure."""

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
"""Least share of an occasion's words (millionths) that a step must contain if their intents differ."""

_KEEPS_PAGE: Final = frozenset({"fill_field", "select_option"})
_PREFIXES: Final[dict[PieceKind, str]] = {
    "hint": "hint",
    "exemplar": "ex",
    "snippet": "sn",
    "recipe": "rc",
    "skill": "sk",
    "instruction": "in",
}
WHOLE_TEXTS: Final[frozenset[PieceKind]] = frozenset({"skill", "instruction"})
"""Kinds whose pieces are given whole to what they are meant for; they are no lines of advice and change no plan."""


@dataclass(frozen=True, slots=True)
class OccasionPiece:
    """A piece of any kind but a rewrite. `rank` (millionths), then `wins`, break ties between pieces that fit a step.

    A lesson in words has no `change`: it is told to models, and changes no plan. Skills and instructions have none
    either, and are given whole.
    `embeddings` is the model that matches it in addition to its words, the same for all pieces of a memory, or None.
    """

    piece: str
    kind: PieceKind
    occasion: Occasion
    change: Change | None
    text: str
    title: str
    wins: int
    rank: int
    embeddings: Embeddings | None = field(default=None, compare=False, repr=False)

    @property
    def is_put_in(self) -> bool:
        """True if the piece inserts steps beside a step instead of changing it."""
        return isinstance(self.change, InsertSteps)

    @property
    def is_in_words(self) -> bool:
        """True if the piece is told as a line of advice and changes no plan."""
        return self.change is None and self.kind not in WHOLE_TEXTS

    @property
    def words(self) -> str:
        """Text that ranking compares: intent, title and text."""
        return f"{self.occasion.intent} {self.title} {self.text}"

    def at(self, plan: Plan, place: int) -> Piece:
        """This piece anchored to the step at `place` of a plan. Raises ValueError for a lesson in words."""
        if self.change is None:
            raise ValueError(self.piece)
        return Piece(self.piece, anchor_of(plan[place]), self.change, self.wins, self.rank, self.kind)


AnyPiece = Piece | OccasionPiece
"""A piece of memory: anchored to one step, or matched to any step similar to its occasion."""


def lesson_id(kind: PieceKind, occasion: Occasion, change: Change | None, words: str = "") -> str:
    """Piece id derived from occasion and change, so that the same piece learned twice has one id.

    A lesson in words has no change; its id is derived from its `words`.
    """
    content = [occasion.model_dump(mode="json"), words if change is None else change.model_dump(mode="json")]
    return f"{_PREFIXES[kind]}-{digest(content).hex()[:12]}"


def text_and_change(content: bytes) -> tuple[str, Change | None]:
    """Text and change of a piece's content, no change for a lesson in words. Raises ValueError for another form."""
    found = json.loads(content)
    change = found["change"]
    return str(found["text"]), None if change is None else CHANGE.validate_python(change, strict=False)


def occasion_at(environment: str, plan: Plan, place: int) -> Occasion:
    """Occasion of a plan's step, with its page if the plan determines it."""
    step = plan[place]
    return Occasion(environment=environment, type=step.type, intent=step.intent, page=planned_page(plan, place))


def planned_page(plan: Plan, place: int) -> str:
    """Pattern of the page on which a step is taken; empty if the plan does not determine it."""
    for step in reversed(plan[:place]):
        if step.type == "navigate":
            return page_pattern(step.url or "")
        if step.type not in _KEEPS_PAGE:
            return ""
    return ""


def fits(lesson: OccasionPiece, environment: str, plan: Plan, place: int) -> bool:
    """True if a step matches a piece's occasion and the piece would change the plan.

    A step with exactly the occasion's intent matches on any page, because addresses drift. A piece that inserts steps
    does not fit a plan that already contains one of them. A lesson in words fits none.
    """
    step, occasion = plan[place], lesson.occasion
    if lesson.change is None or (occasion.environment, occasion.type) != (environment, step.type):
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
    """True if two page patterns can match the same page; an empty pattern matches any page."""
    if not one or not other:
        return True
    parts, others = one.strip("/").split("/"), other.strip("/").split("/")
    return len(parts) == len(others) and all(
        "*" in {part, its} or part == its for part, its in zip(parts, others, strict=True)
    )


def does(step: Step) -> tuple[str | None, ...]:
    """Type, address, label and value of a step, without its intent."""
    return (step.type, step.url, step.label, step.value)


Read = Callable[[str], bytes | None]
"""Reads the content of a piece by its address; returns None if it was erased."""
