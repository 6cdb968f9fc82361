"""What a recorded run began with, derived again from the log: its template, its memory, and what it is told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from agents.learning.advice import Audience, tell_trial
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


@dataclass(frozen=True)
class RunInputs:
    """A run's start at its position, and what its inputs are derived from again."""

    store: EventStore
    blobs: BlobStore
    views_at: ViewsAt
    embedded: Embedded
    started: RunStarted
    begun: Position

    def body(self, address: str) -> bytes:
        """Content of a blob. Raises BlobMissing, BlobErased."""
        return self.blobs.get(address).body


def telling_of(run: RunInputs) -> Callable[[Audience], tuple[OccasionPiece, ...]] | None:
    """What an audience is told now in a run; None if the run's template is not in the log."""
    template = template_of(run)
    if template is None:
        return None
    held, candidate = memory_at_start(run)
    own, environment = run.started.spec.withheld, run.started.task_spec.environment
    withheld = next((piece for piece in held if piece.piece == own), None)
    pieces = [piece for piece in held if piece.piece != own]

    def told(audience: Audience) -> tuple[OccasionPiece, ...]:
        return tell_trial(template, environment, pieces, audience, candidate=candidate, withheld=withheld)

    return told


def saying_of(run: RunInputs) -> Callable[[int], tuple[str, ...]] | None:
    """Lines that a demonstration is told now within a budget of bytes; None for a policy's run."""
    started = run.started
    if started.executor != DEMONSTRATION:
        return None
    planned = run.store.read(stream=f"sweep/{started.spec.sweep}", upto=run.begun, types=["SweepPlanned"])
    tells = any(isinstance(item.event, SweepPlanned) and item.event.tells for item in planned)
    template = template_of(run)
    if template is None or not tells:
        return lambda _: ()
    pieces = memory_at_start(run)[0]
    environment = started.task_spec.environment
    return lambda budget: applied_advice(environment, template, pieces, budget)


def memory_at_start(run: RunInputs) -> tuple[tuple[AnyPiece, ...], AnyPiece | None]:
    """The pieces of a run's memory, and the candidate that it tried."""
    memory, read = run.started.artifact.memory, run.body
    model = run.embedded(memory)
    named = run.started.spec.candidate
    state = None if named is None else candidacies(run.views_at(Position(run.begun - 1))).get(named)
    return pieces_from(read(memory.digest), read, model), None if state is None else load_piece(state, read, model)


def template_of(run: RunInputs) -> Template | None:
    """Template of a run, from its sweep or evaluation. Raises BlobMissing, BlobErased."""
    started = run.started
    if started.arm is not None:
        return _of_evaluation(run, started.arm)
    for item in run.store.read(stream=f"sweep/{started.spec.sweep}", upto=run.begun):
        if isinstance(item.event, SweepPlanned):
            found = (each for each in item.event.templates if each.template_id == started.spec.template)
            return next(found, None)
    return None


def _of_evaluation(run: RunInputs, arm: ArmRun) -> Template | None:
    frozen: BenchmarkFrozen | None = None
    own = run.started.spec.template
    for item in run.store.read(types=["BenchmarkFrozen", "EvaluationOpened"], upto=run.begun):
        match item.event:
            case BenchmarkFrozen() as event if event.benchmark == arm.benchmark:
                frozen = event
            case EvaluationOpened() as event if event.evaluation == arm.evaluation and frozen is not None:
                if event.executor in PLANLESS or is_agent(event.executor):
                    found = (each for each in frozen.templates if each.template_id == own)
                    return next(map(without_plan, found), None)
                templates = planned_templates(frozen.templates, event.suite, run.store, run.blobs, item.position)
                return templates.get(own)
            case _:
                pass
    return None
