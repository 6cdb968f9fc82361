"""What can be tried now: of all that is on trial, what a run could really carry; and what one could do without."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from agents.learning.memory import EVERY_KIND, load_piece
from agents.learning.occasions import Read
from agents.learning.similarity import Embeddings
from agents.rollouts.trials import TrialPiece, would_change
from eventlog.events import PieceKind, Template
from projections.candidacy import Candidacy, cold_ones
from projections.contamination import is_contaminated
from projections.engine.views import Views
from projections.evidence import Paired
from projections.memories import candidacies, piece_kind
from projections.runs import RUNS


@dataclass(frozen=True, slots=True)
class TrialPool:
    """The candidates that a sibling may carry, and the promoted pieces that one may do without."""

    candidates: tuple[TrialPiece, ...] = ()
    promoted: tuple[TrialPiece, ...] = ()

    @property
    def names(self) -> frozenset[str]:
        """The candidates by id."""
        return frozenset(each.piece.piece for each in self.candidates)

    def among(self, templates: Collection[Template], site: str) -> TrialPool:
        """Those that would change the plan of any of a site's templates: no sibling there can carry another one."""
        candidates, promoted = (
            tuple(one for one in each if any(would_change(one.piece, template, site) for template in templates))
            for each in (self.candidates, self.promoted)
        )
        return TrialPool(candidates, promoted)


def trial_pool(
    views: Views, read: Read, kinds: Collection[PieceKind] = EVERY_KIND, embeddings: Embeddings | None = None
) -> TrialPool:
    """What is neither cold nor poisoned and has its content; only of these kinds. A model is what it is matched by."""
    cold = cold_now(views)
    states = [each for key, each in candidacies(views).items() if key not in cold and piece_kind(each) in kinds]
    promoted = (each for each in states if each.status == "promoted" and isinstance(each.rule, Paired))
    candidates = (each for each in states if each.is_on_trial and not is_poisoned(views, each))
    return TrialPool(_trial_pieces(candidates, read, embeddings), _trial_pieces(promoted, read, embeddings))


def cold_now(views: Views) -> frozenset[str]:
    """The pieces that were idle for too long, as of now: they stay out of memory until they are promoted again."""
    return cold_ones(candidacies(views), datetime.now(UTC))


def is_poisoned(views: Views, state: Candidacy) -> bool:
    """Whether the run that a piece was found in began from another state than its siblings: it is never tried."""
    found_in = views.get(RUNS, state.proposed_by)
    return found_in is not None and is_contaminated(views, found_in)


def siblings_for_trials(trying: TrialPool, at_least: int) -> int:
    """How many siblings an instance takes so that whatever is on trial, or might be withheld, has its controls."""
    return max(at_least, 1 + max((each.controls for each in (*trying.candidates, *trying.promoted)), default=0))


def _trial_pieces(states: Iterable[Candidacy], read: Read, embeddings: Embeddings | None) -> tuple[TrialPiece, ...]:
    """What a sibling may try; what was erased nobody can."""
    held = ((load_piece(state, read, embeddings), state.controls) for state in states)
    return tuple(TrialPiece(piece, controls) for piece, controls in held if piece is not None)
