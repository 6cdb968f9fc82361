"""Pieces that can be tried now: candidates that a run could carry, and promoted pieces to withhold."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from agents.learning.advice import Audience
from agents.learning.guidance import is_in_place
from agents.learning.memory import EVERY_KIND, load_piece
from agents.learning.occasions import Read
from agents.learning.similarity import Embeddings
from agents.rollouts.trials import MOST_ABREAST, TrialPiece, would_use
from eventlog.events import PieceKind, Template
from projections.candidacy import Candidacy, cold_ones
from projections.contamination import contaminated_among
from projections.engine.views import Views
from projections.evidence import Paired
from projections.memories import candidacies, piece_kind
from projections.runs import RUNS


@dataclass(frozen=True, slots=True)
class TrialPool:
    """Candidates that a sibling may carry, and promoted pieces that may be withheld from one.

    `abreast` is how many siblings of a group may each carry another candidate. `kept` are promoted instructions that
    their rule withholds from no run.
    """

    candidates: tuple[TrialPiece, ...] = ()
    promoted: tuple[TrialPiece, ...] = ()
    abreast: int = 1
    kept: tuple[TrialPiece, ...] = ()

    @property
    def names(self) -> frozenset[str]:
        """Ids of the candidates."""
        return frozenset(each.piece.piece for each in self.candidates)

    def among(self, templates: Collection[Template], site: str, audience: Audience | None = None) -> TrialPool:
        """The pieces that would change the plan of at least one of the templates, or with an audience, its prompt.

        An instruction is a candidate only while what it was proposed in the place of is in force.
        """
        candidates, promoted = (
            tuple(one for one in each if any(would_use(one.piece, task, site, audience) for task in templates))
            for each in (self.candidates, self.promoted)
        )
        if audience is None:
            return TrialPool(candidates, promoted)
        held, most = [one.piece for one in (*promoted, *self.kept)], audience.guidance
        candidates = tuple(
            one
            for one in candidates
            if all(
                is_in_place(one.piece, task, site, held, most)
                for task in templates
                if would_use(one.piece, task, site, audience)
            )
        )
        fitting = (sum(would_use(one.piece, task, site, audience) for one in candidates) for task in templates)
        return TrialPool(candidates, promoted, max(1, min(MOST_ABREAST, max(fitting, default=0))))


def trial_pool(
    views: Views, read: Read, kinds: Collection[PieceKind] = EVERY_KIND, embeddings: Embeddings | None = None
) -> TrialPool:
    """Pieces of these kinds that are not cold, not poisoned and not erased. `embeddings` is used to match them."""
    pieces = candidacies(views)
    cold = cold_ones(pieces, datetime.now(UTC))
    states = [each for key, each in pieces.items() if key not in cold and piece_kind(each) in kinds]
    in_use = [each for each in states if each.status == "promoted"]
    promoted = (each for each in in_use if isinstance(each.rule, Paired))
    kept = (each for each in in_use if not isinstance(each.rule, Paired) and piece_kind(each) == "instruction")
    on_trial = [each for each in states if each.is_on_trial]
    poisoned = poisoned_runs(views, on_trial)
    candidates = (each for each in on_trial if each.proposed_by not in poisoned)
    tried, withheld, others = (_trial_pieces(each, read, embeddings) for each in (candidates, promoted, kept))
    return TrialPool(tried, withheld, kept=others)


def poisoned_runs(views: Views, states: Iterable[Candidacy]) -> frozenset[str]:
    """The runs in which these pieces were found and that began from another state than their siblings."""
    return contaminated_among(views, views.pick(RUNS, {state.proposed_by for state in states}).values())


def is_poisoned(views: Views, state: Candidacy) -> bool:
    """True if the run that a piece was found in began from another state than its siblings. It is not tried."""
    return state.proposed_by in poisoned_runs(views, (state,))


def siblings_for_one(trying: TrialPool, at_least: int) -> int:
    """Siblings per instance that give each piece in the pool enough controls, if one of them tries one."""
    controls = max((each.controls for each in (*trying.candidates, *trying.promoted)), default=0)
    return max(at_least, 1 + controls)


def siblings_for_trials(trying: TrialPool, at_least: int) -> int:
    """Siblings per instance that give each piece in the pool enough controls, and room to all that go abreast."""
    return siblings_for_one(trying, at_least) + trying.abreast - 1


def seeds_for_trials(trying: TrialPool, at_least: int, seeds: int) -> int:
    """Instances of a round for about as many runs as this number of `seeds` takes without candidates abreast."""
    siblings = siblings_for_trials(trying, at_least)
    return max(1, seeds * (siblings - trying.abreast + 1) // siblings)


def _trial_pieces(states: Iterable[Candidacy], read: Read, embeddings: Embeddings | None) -> tuple[TrialPiece, ...]:
    """Load the pieces to try; erased ones are left out."""
    held = ((load_piece(state, read, embeddings), state) for state in states)
    return tuple(
        TrialPiece(
            piece,
            state.controls,
            is_by_seed=state.is_by_seed,
            is_suspect=state.is_suspect,
            trials=state.treated.k,
        )
        for piece, state in held
        if piece is not None
    )
