"""Export memory to a file that a person may edit, and import it again."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from agents.learning.memory import content_reader, load_piece, piece_of
from agents.learning.memory_file import (
    MemoryFileEntry,
    by_name,
    entry_of_lesson,
    entry_of_rewrite,
    read_memory_file,
    write_memory_files,
)
from agents.learning.occasions import OccasionPiece
from eventlog.events import PromotionRule
from eventlog.store import Append, Committed
from projections.candidacy import may_return
from projections.engine.views import Views
from projections.memories import candidacies
from projections.pieces import PieceState
from projections.rewrites import RewriteState
from projections.runs import RUNS

from ..house import House
from ..queries.changes import describe_change
from ..sweeps.candidates import is_poisoned


@dataclass(frozen=True, slots=True)
class Exported:
    """The texts of one file or more, their number of pieces, and the pieces that were left out.

    Reasons: content `erased`, piece `quarantined`, or found in a contaminated run (`poisoned`).
    """

    texts: tuple[str, ...]
    pieces: int
    erased: tuple[str, ...]
    quarantined: tuple[str, ...]
    poisoned: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Imported:
    """Result of an import: pieces that are candidates now, and pieces already known."""

    fresh: tuple[str, ...]
    known: tuple[str, ...]


def export_memory(house: House, views: Views) -> Exported:
    """Export all pieces except quarantined, poisoned and erased ones. Rewrites become recipes of their step."""
    found: dict[str, MemoryFileEntry] = {}
    erased: list[str] = []
    states, read_content = candidacies(views), content_reader(house.blobs)
    quarantined = tuple(key for key, state in states.items() if state.status == "quarantined")
    poisoned = tuple(key for key, state in states.items() if key not in quarantined and is_poisoned(views, state))
    for key, state in states.items():
        if key in quarantined or key in poisoned:
            continue
        entry = None
        if isinstance(state, RewriteState):
            run = views.get(RUNS, state.proposed_by)
            if run is None:
                continue
            piece = piece_of(state)
            entry = entry_of_rewrite(piece, run.environment, describe_change(piece.change.model_dump(mode="json")))
        elif isinstance(state, PieceState) and state.rule is not None:
            occasion_piece = load_piece(state, read_content)
            entry = entry_of_lesson(occasion_piece, state) if isinstance(occasion_piece, OccasionPiece) else None
            erased += [] if entry is not None else [key]
        if entry is not None:
            found.setdefault(entry.piece, entry)
    return Exported(write_memory_files(found.values()), len(found), tuple(erased), quarantined, poisoned)


def import_memory(house: House, text: str, rule: PromotionRule, actor: str) -> Imported:
    """Append the new pieces of a file as candidates under this rule, in one commit.

    Pieces on trial or in use are skipped; retired, demoted and cold ones become candidates again. Raises BadMemoryFile
    before anything is appended.
    """
    entries = by_name(read_memory_file(text))
    views = house.views()
    states = candidacies(views)
    returning = may_return(states, datetime.now(UTC))
    names = [name for name in sorted(entries) if name not in states or name in returning]
    house.blobs.put([entries[name].content for name in names])
    outcomes = house.store.append(
        [
            Append(
                f"{entries[name].kind}/{name}",
                (entries[name].event(rule),),
                actor,
                key=f"import:{name}:{int(views.upto)}",
            )
            for name in names
        ]
    )
    fresh = tuple(name for name, outcome in zip(names, outcomes, strict=True) if isinstance(outcome, Committed))
    return Imported(fresh, tuple(sorted(entries.keys() - set(fresh))))
