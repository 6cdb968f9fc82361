"""The memory file: export of all pieces as one editable file, and the parser of such a file. Pure."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

from pydantic import ValidationError

from eventlog.blobs import Blob
from eventlog.errors import FlywheelError
from eventlog.events import (
    Change,
    ExemplarCaptured,
    HintRecorded,
    InsertSteps,
    Occasion,
    PieceProposed,
    PromotionRule,
    RecipeImported,
    SnippetLearned,
)
from eventlog.events.event import FrozenModel, ScoreMicro
from projections.pieces import PieceState

from ..edited_files import MOST_BYTES, MOST_STEPS, count_steps, first_bad_address, locate_fault, locate_problem
from ..plans import Piece
from .occasions import WHOLE_TEXTS, OccasionPiece, lesson_id
from .piece_content import MEDIA_TYPE, content_bytes

FORM: Final = "flywheel-memory-1"
MOST_PIECES: Final = 10_000
_FRAME: Final = 100
_INDENT: Final = 6
"""More bytes than a file without pieces has, and than each line of a piece has more in a file."""

LessonEvent = HintRecorded | ExemplarCaptured | SnippetLearned | RecipeImported | PieceProposed
Kind = Literal["hint", "exemplar", "snippet", "recipe", "skill", "instruction"]
_UNTITLED: Final[frozenset[Kind]] = frozenset({"hint", "exemplar", "instruction"})
"""Kinds whose pieces need no title."""


class BadMemoryFile(FlywheelError):
    """The memory file cannot be imported: {actual}; expected {expected}. Nothing was appended."""


class MemoryFileEntry(FrozenModel):
    """One piece: its occasion, title, text and change. `rank` is used for hints and exemplars only.

    A lesson in words has no change, and no skill and no instruction has one.
    """

    kind: Kind
    occasion: Occasion
    title: str = ""
    text: str
    change: Change | None = None
    rank: ScoreMicro = 500_000

    @property
    def piece(self) -> str:
        """Piece id derived from occasion and change (of a lesson in words: text); editing these makes another piece."""
        return lesson_id(self.kind, self.occasion, self.change, self.text)

    @property
    def content(self) -> Blob:
        """Blob of text and change that the event refers to."""
        return Blob(MEDIA_TYPE, content_bytes(self.text, self.change))

    def event(self, rule: PromotionRule) -> LessonEvent:
        """Event that imports the piece under this promotion rule."""
        known: dict[str, Any] = {
            "occasion": self.occasion,
            "content": self.content.digest,
            "rule": rule,
            "run": None,
            "source": "imported",
        }
        named = {**known, self.kind: self.piece}
        match self.kind:
            case "hint":
                return HintRecorded.model_validate({**named, "confidence": self.rank})
            case "exemplar":
                form = "inject" if isinstance(self.change, InsertSteps) else "nudge"
                return ExemplarCaptured.model_validate({**named, "form": form, "reward": self.rank})
            case "snippet":
                return SnippetLearned.model_validate({**named, "title": self.title})
            case "recipe":
                return RecipeImported.model_validate({**named, "title": self.title})
            case "skill" | "instruction":
                facts = {"piece": self.piece, "kind": self.kind, "title": self.title}
                return PieceProposed.model_validate({**known, **facts})


class MemoryFile(FrozenModel):
    """Content of a memory file: its form and its pieces."""

    form: Literal["flywheel-memory-1"]
    pieces: tuple[MemoryFileEntry, ...]


def write_memory_files(entries: Iterable[MemoryFileEntry]) -> tuple[str, ...]:
    """Texts of memory files, their pieces sorted by kind and id: one, or as many as it takes that each can be read."""
    ordered = sorted(entries, key=lambda entry: (entry.kind, entry.piece))
    parts: list[list[MemoryFileEntry]] = [[]]
    steps, size = 0, _FRAME
    for entry in ordered:
        facts = entry.model_dump(mode="json")
        text = _json_of(facts)
        own_steps, own_size = count_steps(facts), len(text.encode()) + _INDENT * (text.count("\n") + 1)
        is_full = len(parts[-1]) == MOST_PIECES or steps + own_steps > MOST_STEPS or size + own_size > MOST_BYTES
        if parts[-1] and is_full:
            parts.append([])
            steps, size = 0, _FRAME
        parts[-1].append(entry)
        steps, size = steps + own_steps, size + own_size
    return tuple(_json_of(MemoryFile(form=FORM, pieces=tuple(part)).model_dump(mode="json")) + "\n" for part in parts)


def _json_of(facts: object) -> str:
    return json.dumps(facts, indent=2, ensure_ascii=False)


def read_memory_file(text: str) -> tuple[MemoryFileEntry, ...]:
    """Pieces of a memory file, each once. Raises BadMemoryFile for any mistake in it.

    Its pieces and steps are counted first, because checking each of very many takes long.
    """
    facts = _facts_in(text)
    try:
        entries = MemoryFile.model_validate_json(text).pieces
    except ValidationError as error:
        raise BadMemoryFile(actual=locate_fault(error, text), expected=f"JSON of the form {FORM}") from None
    leading_out = first_bad_address([piece.get("change") for piece in facts["pieces"]])
    if leading_out is not None:
        (number, *field), fault = leading_out
        place = ("pieces", number, "change", *field)
        raise BadMemoryFile(actual=locate_problem(place, fault, text), expected="paths of the site alone")
    names = Counter(entry.piece for entry in entries)
    twice = sorted(name for name, number in names.items() if number > 1)
    if twice:
        raise BadMemoryFile(actual=f"{twice[0]} is in it twice", expected="each piece once")
    changing = next((entry for entry in entries if entry.kind in WHOLE_TEXTS and entry.change is not None), None)
    if changing is not None:
        raise BadMemoryFile(actual=f"{changing.kind} {changing.piece} has a change", expected="a text alone")
    empty = next((entry for entry in entries if entry.kind not in _UNTITLED and not entry.title.strip()), None)
    if empty is not None:
        raise BadMemoryFile(actual=f"{empty.kind} {empty.piece} has no title", expected="a title")
    return entries


def _facts_in(text: str) -> Any:
    """The parsed text, if it holds few enough pieces and steps. Raises BadMemoryFile."""
    try:
        facts = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadMemoryFile(actual=f"the file: {error}", expected=f"JSON of the form {FORM}") from None
    pieces = facts.get("pieces") if isinstance(facts, dict) else None
    if isinstance(pieces, list) and len(pieces) > MOST_PIECES:
        raise BadMemoryFile(actual=f"it holds {len(pieces)} pieces", expected=f"at most {MOST_PIECES} in one file")
    if (steps := count_steps(facts)) > MOST_STEPS:
        raise BadMemoryFile(actual=f"its pieces hold {steps} steps", expected=f"at most {MOST_STEPS} in one file")
    return facts


def entry_of_lesson(lesson: OccasionPiece, state: PieceState) -> MemoryFileEntry:
    """Entry of an occasion piece."""
    return MemoryFileEntry.model_validate(
        {
            "kind": lesson.kind,
            "occasion": lesson.occasion,
            "title": lesson.title,
            "text": lesson.text,
            "change": lesson.change,
            "rank": min(1_000_000, max(0, state.rank)) if state.kind in {"hint", "exemplar"} else 500_000,
        }
    )


def entry_of_rewrite(piece: Piece, environment: str, says: str) -> MemoryFileEntry:
    """Entry of a rewrite as a recipe; after import it is matched by the intent of the rewrite's step."""
    occasion = Occasion(environment=environment, type=piece.anchor.type, intent=piece.anchor.intent, page="")
    return MemoryFileEntry(
        kind="recipe", occasion=occasion, title=piece.anchor.intent or says, text=says, change=piece.change
    )


def by_name(entries: Iterable[MemoryFileEntry]) -> Mapping[str, MemoryFileEntry]:
    """Entries keyed by piece id."""
    return {entry.piece: entry for entry in entries}
