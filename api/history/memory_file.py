"""Export memory to a file that a person may edit, and import it again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from agents.learning.guidance import find_replaced
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
from projections.candidacy import Candidacy, may_return, piece_status
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
    """Result of an import: pieces that are candidates now, and pieces already known.

    `places` has the instructions among the former and those in force, in whose place they are tried (empty: none is).
    `untried` has the instructions of the file that are on trial and are not tried, and what of those in force is why.
    """

    fresh: tuple[str, ...]
    known: tuple[str, ...]
    places: Mapping[str, str] = field(default_factory=dict)
    untried: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


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

    Pieces on trial or in use are skipped; retired, demoted and cold ones become candidates again. An instruction is
    tried in the place of the one in force, whatever it was tried in the place of before. Raises BadMemoryFile before
    anything is appended.
    """
    entries = dict(by_name(read_memory_file(text)))
    views, now = house.views(), datetime.now(UTC)
    states = candidacies(views)
    returning = may_return(states, now)
    names = [name for name in sorted(entries) if name not in states or name in returning]
    places = _places(house, entries, states, now)
    entries |= {
        name: entries[name].model_copy(update={"title": min(found)}) for name, found in places.items() if name in names
    }
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
    untried = {
        name: tuple(sorted(found))
        for name, found in places.items()
        if len(found) > 1 or (name not in fresh and _is_on_trial_elsewhere(states.get(name), found))
    }
    tried = {name: min(places[name]) for name in fresh if name in places and name not in untried}
    return Imported(fresh, tuple(sorted(entries.keys() - set(fresh))), tried, untried)


def _is_on_trial_elsewhere(state: Candidacy | None, places: frozenset[str]) -> bool:
    """True if an instruction is on trial in the place of another one than these."""
    return isinstance(state, PieceState) and state.is_on_trial and state.title not in places


def _places(
    house: House, entries: Mapping[str, MemoryFileEntry], states: Mapping[str, Candidacy], now: datetime
) -> dict[str, frozenset[str]]:
    """Of each instruction of a file the ids of those in force in whose place it would be tried; empty for none."""
    read = content_reader(house.blobs)
    pieces = (
        load_piece(state, read)
        for state in states.values()
        if isinstance(state, PieceState) and state.kind == "instruction" and piece_status(state, now) == "promoted"
    )
    held = [each for each in pieces if isinstance(each, OccasionPiece)]
    return {name: find_replaced(entry.occasion, held) for name, entry in entries.items() if entry.kind == "instruction"}
