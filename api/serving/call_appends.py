"""What the log holds of a run from outside, and the append of its next calls. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from eventlog.blobs import Blob
from eventlog.codec import EncodedAppend, encode_append
from eventlog.events import AnyEvent, Applied, Memory, ModelCalled, StepTaken
from eventlog.store import Append, Position, Recorded

from ..run_owners import proxy_actor


@dataclass(frozen=True, slots=True)
class RunOpening:
    """A caller's description of a run that it begins; `group` joins the runs of one instance of a task.

    `weights` are those of the model that it calls first, `memory` is what it is told of (None: no memory is known of
    it), and `applied` are the pieces of it.
    """

    run: str
    token: str
    group: str
    task: str
    weights: str = "base"
    memory: Memory | None = None
    applied: tuple[Applied, ...] = ()

    @property
    def actor(self) -> str:
        """Actor of the run's events: the proxy for the holder of a token."""
        return proxy_actor(self.token)


@dataclass(frozen=True, slots=True)
class RunProgress:
    """The version of a run's stream, the numbers of its next call and step, and the position of its last event.

    `told` are the messages whose results of tools are steps already.
    """

    version: int
    calls: int
    position: Position
    steps: int = 0
    told: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ReadyCall:
    """The event of a call, the steps that it tells of, and the blobs of both."""

    event: ModelCalled
    steps: Sequence[StepTaken]
    blobs: Sequence[Blob]


@dataclass(frozen=True, slots=True)
class ReadyRun:
    """Calls that are to be appended to a run that stands as `known`, by their places among all that are recorded."""

    opening: RunOpening
    known: RunProgress
    calls: Mapping[int, ReadyCall]

    def next_append(self) -> tuple[EncodedAppend, RunProgress]:
        """The append of the calls, without steps that other calls told, and where the run stands after it.

        The position after is known once it is committed. Raises UnstorableText.
        """
        events: list[AnyEvent] = []
        after = self.known
        for each in self.calls.values():
            fresh = [step for step in each.steps if step.told_by not in after.told]
            events += (step.model_copy(update={"index": after.steps + more}) for more, step in enumerate(fresh))
            events.append(each.event.model_copy(update={"index": after.calls}))
            told = after.told | {step.told_by for step in fresh if step.told_by is not None}
            after = replace(after, calls=after.calls + 1, steps=after.steps + len(fresh), told=told)
        stream, expect = f"run/{self.opening.run}", self.known.version
        append = Append(stream=stream, events=tuple(events), actor=self.opening.actor, expect=expect)
        return encode_append(append), replace(after, version=expect + len(events))


def progress_after(found: RunProgress, recorded: Recorded) -> RunProgress:
    """Where a run stands after one more event of it."""
    event = recorded.event
    told = {event.told_by} if isinstance(event, StepTaken) and event.told_by is not None else set[str]()
    return RunProgress(
        recorded.version,
        found.calls + isinstance(event, ModelCalled),
        recorded.position,
        found.steps + isinstance(event, StepTaken),
        found.told | told,
    )
