"""Replay a recorded run from log and blobs. Writes nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from agents.executors import plan as plan_executor
from agents.executors.browser import executor as browser_executor
from agents.executors.kits import find_kits
from agents.learning.embeddings import Embedded, by_words
from agents.learning.memory import forget_everything, rebuild_memory
from agents.learning.retrieval import overlay_memory
from agents.plans import Overlaid, plan_from
from agents.rollouts.recording import Conversation, KeptRun, RecordedCall, Recording
from agents.rollouts.replay import Replayed, answer_erased, replay_recording
from eventlog.blobs import BlobStore
from eventlog.blobs.conversations import node
from eventlog.errors import BlobErased, BlobMissing
from eventlog.events import (
    InstanceReset,
    ModelCalled,
    PriceBookSet,
    RewardGraded,
    RunFinished,
    RunMissing,
    RunStarted,
    SiteRecorded,
    StepTaken,
)
from eventlog.store import EventStore, Position, Recorded
from projections.costs import PriceBook
from projections.runs import AGENT, DEMONSTRATION, PLANLESS, POLICIES, REMOTE, is_advised

from ..datasets.freeze import ViewsAt
from ..errors import NotReplayable
from ..queries.runs import unknown_run
from .run_inputs import RunInputs, memory_at_start, saying_of, telling_of, template_of

WALKED: Final = frozenset({plan_executor.NAME, browser_executor.NAME})
"""Executors whose runs are replayed by walking the recorded pages."""

_WALKED_IN_PLACE: Final = frozenset(name for kit in find_kits() for name in kit.walkers)
"""Executors whose plan is walked again over recorded outcomes, because their pages change in place."""

_ASKED_AGAIN: Final = POLICIES | {DEMONSTRATION}
"""Executors whose model is asked again, and answered from the record."""

REPLAYED: Final = frozenset(
    {*WALKED, *POLICIES, DEMONSTRATION, AGENT, REMOTE, *(name for kit in find_kits() for name in kit.executors)}
)
"""Executors whose runs are replayed, or compared as far as their record allows. Delegation has a replay of its own."""

if TYPE_CHECKING:
    from eventlog.blobs.conversations import Json


def replay_run(
    store: EventStore, blobs: BlobStore, views_at: ViewsAt, run: str, embedded: Embedded = by_words
) -> Replayed:
    """Execute a recorded run again from its record. The outcome is *erased* if a blob it needs was erased.

    Its plan is derived with the embedding model pinned by its memory. Raises Unknown, NotReplayable,
    BlobMissing, BlobDamaged, EmbeddingsMissing, EmbeddingsOther.
    """
    try:
        return replay_recording(recording_of(store, blobs, views_at, run, embedded))
    except BlobErased as error:
        return answer_erased(run, str(error.facts["actual"]))


def recording_of(
    store: EventStore, blobs: BlobStore, views_at: ViewsAt, run: str, embedded: Embedded = by_words
) -> Recording:
    """Everything recorded about a run in log and blobs.

    Raises Unknown, NotReplayable, BlobMissing, BlobDamaged, BlobErased, EmbeddingsMissing, EmbeddingsOther.
    """
    events = tuple(store.read(stream=f"run/{run}"))
    started, finished = _start_and_end(run, events)
    begun = next(item.position for item in events if isinstance(item.event, RunStarted))
    inputs = RunInputs(store, blobs, views_at, embedded, started, begun)
    steps = tuple(item.event for item in events if isinstance(item.event, StepTaken))
    graded = next(((item.position, item.event) for item in events if isinstance(item.event, RewardGraded)), None)
    pages = dict.fromkeys(step.observation for step in steps if step.observation is not None)
    return Recording(
        started=started,
        reset=next((item.event for item in events if isinstance(item.event, InstanceReset)), None),
        steps=steps,
        finished=finished,
        graded=None if graded is None else graded[1],
        plan=plan_from(blobs.get(started.plan).body),
        texts={address: blobs.get(address).body.decode("utf-8", errors="replace") for address in pages},
        derived=_derive_plan(inputs),
        memory=_memory(views_at, started, blobs),
        end_state=_end_state(blobs, finished),
        book=None if graded is None else book_of(store, graded[1].prices, graded[0]),
        conversation=_conversation(inputs, events),
        kept=_kept_run(inputs, events),
    )


def _kept_run(inputs: RunInputs, events: Sequence[Recorded]) -> KeptRun | None:
    """What a record holds of a run besides pages; None for a plan that walked them."""
    started = inputs.started
    if started.executor in WALKED and not _changes_in_place(events):
        return None
    calls = tuple(item.event for item in events if isinstance(item.event, ModelCalled))
    is_told = is_advised(started.executor) and started.executor not in _ASKED_AGAIN
    told = telling_of(inputs) if is_told else None
    has_site = any(isinstance(item.event, SiteRecorded) for item in events)
    return KeptRun(calls, is_told, told, has_site, walks_plan=started.executor in WALKED | _WALKED_IN_PLACE)


def _changes_in_place(events: Sequence[Recorded]) -> bool:
    """True if a page changed without a request, which the pages of a record cannot do again."""
    steps = (item.event for item in events if isinstance(item.event, StepTaken))
    return any(step.observation is not None and step.http_status is None for step in steps)


def _conversation(inputs: RunInputs, events: Sequence[Recorded]) -> Conversation | None:
    """The conversation of a policy's run or a demonstration, with what it is told now; None for another run."""
    started, blobs = inputs.started, inputs.blobs
    if started.executor not in _ASKED_AGAIN:
        return None
    calls = [item.event for item in events if isinstance(item.event, ModelCalled) and item.event.role == "policy"]
    if not calls:
        raise NotReplayable(run=started.run, actual="no model call of it is recorded")
    messages = _messages_by_address(blobs, calls[-1].messages)
    places = {address: number for number, address in enumerate(messages, 1)}
    shown = {item.event.screenshot for item in events if isinstance(item.event, StepTaken) and item.event.screenshot}
    return Conversation(
        messages=[messages[address] for address in messages],
        calls=tuple(_recorded_call(blobs, call, places) for call in calls),
        pictures={address: blobs.get(address).body for address in shown},
        told=telling_of(inputs),
        said=saying_of(inputs),
    )


def _messages_by_address(blobs: BlobStore, address: str) -> dict[str, Mapping[str, Json]]:
    """The messages of a conversation by address, in order."""
    found: dict[str, Mapping[str, Json]] = {}
    following: str | None = address
    while following is not None:
        message, parent = node(following, blobs.get(following))
        found[following], following = message, parent
    return dict(reversed(found.items()))


def _recorded_call(blobs: BlobStore, call: ModelCalled, places: Mapping[str, int]) -> RecordedCall:
    """A call; its messages are as many as the run's conversation had then, 0 if it was no part of it."""
    answer = json.loads(blobs.get(call.completion).body)
    sample, messages = answer["samples"][0], places.get(call.messages, 0)
    return RecordedCall(call.step, messages, call.sampling, sample["text"], sample["finish"], "constrained" in answer)


def _start_and_end(run: str, events: Sequence[Recorded]) -> tuple[RunStarted, RunFinished]:
    """RunStarted and RunFinished of a run that is replayed. Raises Unknown, NotReplayable."""
    started = next((item.event for item in events if isinstance(item.event, RunStarted)), None)
    if started is None:
        raise unknown_run(run)
    missing = next((item.event for item in events if isinstance(item.event, RunMissing)), None)
    if missing is not None:
        raise NotReplayable(run=run, actual=f"it is missing ({missing.reason}): nothing of it was recorded")
    finished = next((item.event for item in events if isinstance(item.event, RunFinished)), None)
    if finished is None:
        raise NotReplayable(run=run, actual="it has not ended")
    if started.executor not in REPLAYED:
        raise NotReplayable(run=run, actual=f"its executor is {started.executor!r}")
    return started, finished


def _derive_plan(inputs: RunInputs) -> Overlaid | None:
    """Plan derived from the run's template, memory and trial; None if the log has no such template."""
    template, started = template_of(inputs), inputs.started
    if template is None:
        return None
    held, candidate = memory_at_start(inputs)
    pieces = [piece for piece in held if piece.piece != started.spec.withheld]
    if started.executor in PLANLESS:
        pieces, candidate = [], None
    return overlay_memory(template.plan_steps, template.instruction, started.task_spec.environment, pieces, candidate)


def _memory(views_at: ViewsAt, started: RunStarted, blobs: BlobStore) -> str | None:
    """Digest of the run's memory folded again; None if other versions of the folds made it. Raises BlobMissing."""
    memory = started.artifact.memory
    if memory.upto == 0:
        return forget_everything(started.artifact.weights)[0].memory.digest
    base = None if memory.scope is None else blobs.get(memory.scope.base).body
    found = rebuild_memory(views_at(Position(memory.upto)), started.artifact.weights, memory, base)
    return None if found is None else found.digest


def _end_state(blobs: BlobStore, finished: RunFinished) -> bytes | None:
    try:
        return blobs.get(finished.end_state).body
    except BlobMissing:
        return None


def book_of(store: EventStore, version: int, upto: Position) -> PriceBook | None:
    """Newest price book of a version up to a position."""
    books = (item.event for item in store.read(types=("PriceBookSet",), upto=upto))
    found = [event for event in books if isinstance(event, PriceBookSet) and event.version == version]
    return PriceBook(**found[-1].model_dump(exclude={"type"})) if found else None
