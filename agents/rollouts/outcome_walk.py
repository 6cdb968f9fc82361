"""Replay of a plan on pages that change in place: it is walked again, and each step ends as the record says. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from eventlog.events import Step

from ..executors.executor import CostReached, ExecutedStep
from ..executors.surface import Acted
from ..executors.walk import walk_plan
from .recording import Recording, ReplayCheck
from .replay_outcome import end_check
from .step_checks import step_checks


def walk_checks(recording: Recording) -> Iterator[ReplayCheck]:
    """Yield the checks of each step of the recorded plan, and of the end."""
    last = len(recording.steps) - 1

    def watch(taken: ExecutedStep) -> None:
        """A bound on the number of steps and one on cost end a run alike."""
        if taken.index == last and recording.finished.status == "out_of_budget":
            raise CostReached

    most = recording.started.task_spec.max_steps
    execution = walk_plan(recording.plan, _RecordedOutcomes(recording), max_steps=most, watch=watch)
    yield from step_checks(recording.steps, execution)
    yield end_check(recording, execution)


@dataclass
class _RecordedOutcomes:
    """A surface on which each step ends as the recorded one with its number. See Surface."""

    recording: Recording
    taken: int = field(default=0, init=False)

    def act(self, step: Step) -> Acted:  # noqa: ARG002 what was recorded does not ask which step it is
        """See Surface. A step beyond the record has no control."""
        steps = self.recording.steps
        self.taken += 1
        if self.taken > len(steps):
            return Acted("no_such_action")
        recorded = steps[self.taken - 1]
        return Acted(recorded.outcome, recorded.http_status, recorded.observation is not None)

    def text(self) -> str | None:
        """See Surface."""
        address = self.recording.steps[self.taken - 1].observation
        return None if address is None else self.recording.texts[address]

    def view(self) -> str | None:
        """See Surface. The same as `text`."""
        return self.text()

    def screenshot(self) -> bytes | None:
        """See Surface. None is asked for."""
        return None
