"""What another Flywheel recorded of a run, as an execution of ours. Pure, apart from the blobs that it asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, get_args

from eventlog.blobs import Blob
from eventlog.blobs.conversations import node
from eventlog.events import ModelCalled, RunFinished, RunStarted, Step, StepTaken
from eventlog.events.plans import StepType

from ..executor import ExecutedStep, Execution, PassedOn

if TYPE_CHECKING:
    from eventlog.events import AnyEvent

BlobOf = Callable[[str], Blob]
_TYPES: Final = frozenset(get_args(StepType)) - {"act"}


def start_of(events: Iterable[AnyEvent]) -> RunStarted | None:
    """The start of a run; None if it was not begun."""
    return next((event for event in events if isinstance(event, RunStarted)), None)


def execution_of(events: Sequence[AnyEvent], blob_of: BlobOf) -> Execution | None:
    """The steps and the policy's calls of a finished run; None if its end is not among the events.

    Calls of step checks are left out, because who plays the run here checks steps by himself, or not at all. Raises
    what `blob_of` does, NotAConversation, BlobDamaged.
    """
    finished = next((event for event in events if isinstance(event, RunFinished)), None)
    if finished is None:
        return None
    reading = _Reading(blob_of)
    taken = tuple(reading.step(event) for event in events if isinstance(event, StepTaken))
    calls = tuple(reading.call(event) for event in events if isinstance(event, ModelCalled) and event.role == "policy")
    return Execution(taken, finished.status, passed_on=calls)


@dataclass
class _Reading:
    """The blobs of one run, each asked for once."""

    blob_of: BlobOf
    known: dict[str, Blob] = field(default_factory=dict)

    def blob(self, address: str) -> Blob:
        if address not in self.known:
            self.known[address] = self.blob_of(address)
        return self.known[address]

    def step(self, event: StepTaken) -> ExecutedStep:
        is_act = event.argument is not None or event.action not in _TYPES  # a step on a page has no argument
        argument = None if event.argument is None else self._text(event.argument)
        step = Step.model_validate(
            {
                "type": "act" if is_act else event.action,
                "intent": event.intent,
                "label": event.action if is_act else None,
                "value": argument,
            }
        )
        page = None if event.observation is None else self._text(event.observation)
        picture = None if event.screenshot is None else self.blob(event.screenshot).body
        return ExecutedStep(event.index, step, event.outcome, event.http_status, page, picture)

    def call(self, event: ModelCalled) -> PassedOn:
        further = (self.blob(address) for address in (*event.images, event.completion))
        return PassedOn(event.step, event, (*self._conversation(event.messages), *further))

    def _conversation(self, address: str) -> Iterator[Blob]:
        """The messages of a call, last first."""
        following: str | None = address
        while following is not None:
            blob = self.blob(following)
            yield blob
            _, following = node(following, blob)

    def _text(self, address: str) -> str:
        return self.blob(address).body.decode("utf-8", errors="replace")
