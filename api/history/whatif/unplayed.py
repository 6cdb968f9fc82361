"""Runs that another definition would have asked for and that were never played.

A sweep and an evaluation are pinned to a memory. Where that memory would have held something else, what its runs would
have come to is not known: it is said, never guessed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from agents.learning.embeddings import Embedded, by_words
from agents.learning.memory import build_memory_artifact, content_reader, load_piece
from agents.learning.occasions import AnyPiece, Read
from agents.learning.retrieval import overlay_memory
from agents.learning.similarity import Embeddings
from agents.plans import Overlaid
from agents.rollouts.arms import planned_templates
from agents.rollouts.trials import TrialPiece, treat, treat_all
from eventlog.blobs import BlobStore
from eventlog.events import Artifact, BenchmarkFrozen, Spec, SweepPlanned, Template
from eventlog.store import EventStore, Position
from gate.benchmark import specs as places_of
from projections.benchmarks import BENCHMARKS
from projections.candidacy import Candidacy
from projections.champions import CHAMPION, CHAMPIONS
from projections.counterfactual import ViewsAt
from projections.evidence import Paired
from projections.memories import candidacies
from projections.runs import PLANLESS
from projections.verdicts import VERDICTS, VerdictState

from .report import Asked, Unplayed


@dataclass(frozen=True, slots=True)
class _Reads:
    """Where contents and models are read."""

    content: Read
    embedded: Embedded


@dataclass(frozen=True, slots=True)
class _Side:
    """What one history remembered when something was pinned: what memory applies, and what was on trial."""

    pieces: Mapping[str, Candidacy]
    without: tuple[str, ...]
    environment: str
    read: Read
    embeddings: Embeddings | None

    def overlaid(self, template: Template, candidate: str | None, withheld: str | None = None) -> Overlaid:
        """The plan that a run of this memory would execute."""
        tried = None if candidate is None or candidate not in self.pieces else self.piece(candidate)
        held = [self.piece(key) for key in self.promoted() if key != withheld]
        pieces = [each for each in held if each is not None]
        return overlay_memory(template.plan_steps, template.instruction, self.environment, pieces, tried)

    def piece(self, name: str) -> AnyPiece | None:
        """A piece as memory holds it; None where its content was erased."""
        return load_piece(self.pieces[name], self.read, self.embeddings)

    def promoted(self) -> list[str]:
        """What memory holds."""
        found = (key for key, state in self.pieces.items() if state.status == "promoted")
        return [key for key in found if key not in self.without]

    def candidates(self) -> list[str]:
        """What is on trial."""
        return sorted(key for key, state in self.pieces.items() if state.is_on_trial)

    def treated(self, sweep: SweepPlanned, bare: Sequence[Spec]) -> tuple[Spec, ...]:
        """A sweep's specs with what would have been drawn for them."""
        if sweep.trials is None:
            return treat_all(bare, self.candidates(), sweep.rng_seed)
        withheld = [key for key in self.promoted() if isinstance(self.pieces[key].rule, Paired)]
        candidates, promoted = (self._tryables(keys) for keys in (self.candidates(), withheld))
        return treat(bare, sweep.templates, candidates, promoted, sweep.trials, sweep.rng_seed, sweep.environment)

    def _tryables(self, names: Sequence[str]) -> list[TrialPiece]:
        held = ((self.piece(name), self.pieces[name].controls) for name in names)
        return [TrialPiece(piece, controls) for piece, controls in held if piece is not None]


def runs_not_played(
    store: EventStore,
    blobs: BlobStore,
    truth_at: ViewsAt,
    other_at: ViewsAt,
    upto: Position,
    embedded: Embedded = by_words,
) -> tuple[Unplayed, ...]:
    """Runs of sweeps and evaluations up to a position that would have applied something else, in order.

    Raises BlobMissing, BlobErased, and what `embedded` raises.
    """
    reads = _Reads(content_reader(blobs), embedded)
    sweeps = ((item.event, item.version == 1) for item in store.read(types=("SweepPlanned",), upto=upto))
    found = [
        run
        for sweep, is_first in sweeps
        if isinstance(sweep, SweepPlanned)
        for run in _of_sweep(
            sweep,
            *_sides(truth_at, other_at, sweep.artifact, sweep.environment, reads),
            is_drawn=is_first and sweep.learns,
        )
    ]
    truth = truth_at(upto)
    for state in sorted(truth.find(VERDICTS).values(), key=lambda state: state.opened_since):
        benchmark = truth.find(BENCHMARKS)[state.benchmark].frozen_event()
        opened = Position(state.opened_since)
        templates = planned_templates(benchmark.templates, state.plans(), store, blobs, opened)
        found += _of_evaluation(state, benchmark, templates, truth_at, other_at, reads)
    return tuple(found)


def _sides(
    truth_at: ViewsAt, other_at: ViewsAt, artifact: Artifact, environment: str, reads: _Reads
) -> tuple[_Side, _Side]:
    at, without = Position(artifact.memory.upto), artifact.memory.without
    model = reads.embedded(artifact.memory)
    truth, other = (
        _Side(candidacies(views_at(at)), without, environment, reads.content, model)
        for views_at in (truth_at, other_at)
    )
    return truth, other


def _of_sweep(sweep: SweepPlanned, truth: _Side, other: _Side, *, is_drawn: bool) -> Iterator[Unplayed]:
    templates = {template.template_id: template for template in sweep.templates}
    for spec, would in zip(sweep.specs, _redrawn(sweep, truth, other, is_drawn=is_drawn), strict=True):
        template = templates[spec.template]
        actual = truth.overlaid(template, spec.candidate, spec.withheld)
        yield from _compare(spec, sweep.sweep, actual, other.overlaid(template, would.candidate, would.withheld))


def _redrawn(sweep: SweepPlanned, truth: _Side, other: _Side, *, is_drawn: bool) -> Sequence[Spec]:
    """The specs with what would have been drawn; only dropped where the draw is not one of ours.

    For a sweep that does not learn, and for siblings that were added later, none are ever drawn.
    """
    bare = [_bare(spec) for spec in sweep.specs]
    if not is_drawn:
        return bare
    if truth.treated(sweep, bare) == sweep.specs:
        return other.treated(sweep, bare)
    kept = frozenset([*other.candidates(), *other.promoted()])
    return [spec if (spec.candidate or spec.withheld) in kept else _bare(spec) for spec in sweep.specs]


def _bare(spec: Spec) -> Spec:
    return spec.model_copy(update={"candidate": None, "withheld": None})


def _of_evaluation(
    state: VerdictState,
    benchmark: BenchmarkFrozen,
    templates: Mapping[str, Template],
    truth_at: ViewsAt,
    other_at: ViewsAt,
    reads: _Reads,
) -> Iterator[Unplayed]:
    sides = [_sides(truth_at, other_at, artifact, benchmark.environment, reads) for artifact in state.artifacts()]
    arms = dict(zip(("champion", "challenger"), sides, strict=True))
    for place in places_of(benchmark, state.evaluation):
        template, (actual, would) = templates.get(place.spec.template), arms[place.arm.arm]
        if template is not None and state.executor not in PLANLESS:
            yield from _compare(
                place.spec, state.evaluation, actual.overlaid(template, None), would.overlaid(template, None)
            )


def _compare(spec: Spec, of: str, actual: Overlaid, would: Overlaid) -> Iterator[Unplayed]:
    if (actual.plan, actual.applied) != (would.plan, would.applied):
        yield Unplayed(
            run=spec.spec_id,
            of=of,
            applied=tuple(item.piece for item in actual.applied),
            would_apply=tuple(item.piece for item in would.applied),
        )


def evaluations_asked(truth_at: ViewsAt, other_at: ViewsAt, upto: Position) -> tuple[Asked, ...]:
    """Evaluations that the memory at a position would ask for under the other definition, and does not in truth."""
    truth = truth_at(upto)
    found = []
    for state in truth.find(BENCHMARKS).values():
        opened = [each for each in truth.find(VERDICTS).values() if each.benchmark == state.benchmark]
        pieces = _pieces_not_judged(other_at, opened, upto)
        if pieces and not _pieces_not_judged(truth_at, opened, upto):
            found.append(Asked(state.benchmark, 2 * state.repeats * len(state.tasks), pieces))
    return tuple(found)


def _pieces_not_judged(views_at: ViewsAt, opened: Sequence[VerdictState], upto: Position) -> tuple[str, ...]:
    """The pieces that the memory at a position holds, where no champion was judged with them; else nothing."""
    views = views_at(upto)
    champion = views.get(CHAMPIONS, CHAMPION)
    if champion is None:
        return ()
    known = [champion.pointed_artifact(), *(state.artifacts()[1] for state in opened if state.decision != "void")]
    judged = {_memory_digest(views_at, artifact) for artifact in known}
    present = build_memory_artifact(views, champion.pointed_artifact().weights)[0].memory.digest
    held = tuple(key for key, state in candidacies(views).items() if state.status == "promoted")
    return held if present not in judged else ()


def _memory_digest(views_at: ViewsAt, artifact: Artifact) -> str:
    memory = artifact.memory
    return build_memory_artifact(views_at(Position(memory.upto)), artifact.weights, without=memory.without)[
        0
    ].memory.digest
