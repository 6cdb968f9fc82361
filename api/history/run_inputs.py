"""What a recorded run began with, derived again from the log: its template, its memory, and what it is told."""

from __future__ import annotations

from collections.abc import Callable

from agents.learning.advice import tell_trial
from agents.learning.applied_words import applied_advice
from agents.learning.embeddings import Embedded
from agents.learning.memory import load_piece, pieces_from
from agents.learning.occasions import AnyPiece, OccasionPiece
from agents.rollouts.arms import planned_templates, without_plan
from eventlog.blobs import BlobStore
from eventlog.events import ArmRun, BenchmarkFrozen, EvaluationOpened, RunStarted, SweepPlanned, Template
from eventlog.store import EventStore, Position
from projections.memories import candidacies
from projections.runs import DEMONSTRATION, PLANLESS, is_agent

from ..datasets.freeze import ViewsAt


def telling_of(
    store: EventStore,
    blobs: BlobStore,
    views_at: ViewsAt,
    started: RunStarted,
    begun: Position,
    embedded: Embedded,
) -> Callable[[int], tuple[OccasionPiece, ...]] | None:
    """Advice to a run now within a budget of bytes; None if its template is not in the log."""
    template = template_of(store, blobs, started, begun)
    if template is None:
        return None
    held, candidate = memory_at_start(blobs, views_at, started, begun, embedded)
    own, withheld = started.spec.withheld, [piece for piece in held if piece.piece == started.spec.withheld]
    pieces = [piece for piece in held if piece.piece != own]

    def told(budget: int) -> tuple[OccasionPiece, ...]:
        left = withheld[0] if withheld else None
        environment = started.task_spec.environment
        return tell_trial(template, environment, pieces, budget, candidate=candidate, withheld=left)

    return told


def saying_of(
    store: EventStore,
    blobs: BlobStore,
    views_at: ViewsAt,
    started: RunStarted,
    begun: Position,
    embedded: Embedded,
) -> Callable[[int], tuple[str, ...]] | None:
    """Lines that a demonstration is told now within a budget of bytes; None for a policy's run."""
    if started.executor != DEMONSTRATION:
        return None
    planned = store.read(stream=f"sweep/{started.spec.sweep}", upto=begun, types=["SweepPlanned"])
    tells = any(isinstance(item.event, SweepPlanned) and item.event.tells for item in planned)
    template = template_of(store, blobs, started, begun)
    if template is None or not tells:
        return lambda _: ()
    pieces = memory_at_start(blobs, views_at, started, begun, embedded)[0]
    environment = started.task_spec.environment
    return lambda budget: applied_advice(environment, template, pieces, budget)


def memory_at_start(
    blobs: BlobStore, views_at: ViewsAt, started: RunStarted, begun: Position, embedded: Embedded
) -> tuple[tuple[AnyPiece, ...], AnyPiece | None]:
    """The pieces of a run's memory, and the candidate that it tried."""

    def read(address: str) -> bytes:
        return blobs.get(address).body

    memory = started.artifact.memory
    model = embedded(memory)
    named = started.spec.candidate
    state = None if named is None else candidacies(views_at(Position(begun - 1))).get(named)
    return pieces_from(read(memory.digest), read, model), None if state is None else load_piece(state, read, model)


def template_of(store: EventStore, blobs: BlobStore, started: RunStarted, upto: Position) -> Template | None:
    """Template of a run, from its sweep or evaluation. Raises BlobMissing, BlobErased."""
    if started.arm is not None:
        return _of_evaluation(store, blobs, started, started.arm, upto)
    for item in store.read(stream=f"sweep/{started.spec.sweep}", upto=upto):
        if isinstance(item.event, SweepPlanned):
            found = (each for each in item.event.templates if each.template_id == started.spec.template)
            return next(found, None)
    return None


def _of_evaluation(
    store: EventStore, blobs: BlobStore, started: RunStarted, arm: ArmRun, upto: Position
) -> Template | None:
    frozen: BenchmarkFrozen | None = None
    for item in store.read(types=["BenchmarkFrozen", "EvaluationOpened"], upto=upto):
        match item.event:
            case BenchmarkFrozen() as event if event.benchmark == arm.benchmark:
                frozen = event
            case EvaluationOpened() as event if event.evaluation == arm.evaluation and frozen is not None:
                if event.executor in PLANLESS or is_agent(event.executor):
                    own = (each for each in frozen.templates if each.template_id == started.spec.template)
                    return next(map(without_plan, own), None)
                templates = planned_templates(frozen.templates, event.suite, store, blobs, item.position)
                return templates.get(started.spec.template)
            case _:
                pass
    return None
