"""The remote executor: another Flywheel plays a policy by the weights of the run, on an instance that is ours.

The instance is opened, graded and closed here, as for any other executor, so another Flywheel's grade counts for
nothing here. Its worker restarts the instance from the same seed, plays, and says what it did. A sealed run is graded
here alone.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import count
from threading import Event
from time import monotonic
from typing import Any, Final

from projections.runs import REMOTE

from ...envs.contract import Instance
from ...models.local.network import BASE
from ..executor import Assignment, Execution, Watch, no_verification
from .errors import RemoteFailure, RemotePlayedOtherwise, RemoteRunLate, RemoteRunLost, RemoteStopped
from .flywheel import KeyInUse, RemoteFlywheel, RemoteStatus
from .recorded import execution_of, start_of

_PLAYED: Final = frozenset({"passed", "failed", "ungraded"})
_MICRO: Final = 1_000_000
_FIRST_WAIT_S: Final = 0.1
_LONGEST_WAIT_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class RemoteTerms:
    """What is asked for with each run. `store` is where checkpoints lie there: STORE/DIGEST/peft is the reference.

    A run may take so many `minutes`, and wait as long for a worker. `origin` gives the name of this log, by which runs
    of several logs that share a token are kept apart. `model` is the policy's model there (None: the configured one).
    """

    store: str
    minutes: float
    origin: Callable[[], str]
    model: str | None = None
    dollars: float | None = None
    offers_logprobs: bool = False

    def reference_of(self, weights: str) -> str | None:
        """The reference of a checkpoint there; None for the base."""
        return None if weights == BASE else f"{self.store.rstrip('/')}/{weights}/peft"


@dataclass(frozen=True, slots=True)
class RemotePolicies:
    """Executor of a base and of checkpoints at another Flywheel. It is told no memory.

    Once `stop` is set, every run under way is called off there.
    """

    flywheel: RemoteFlywheel
    terms: RemoteTerms
    stop: Event = field(default_factory=Event)
    now: Callable[[], float] = monotonic
    name: str = REMOTE

    @property
    def model_name(self) -> str | None:
        """Name of its model in sweeps; None where the other Flywheel's settings name it."""
        return None if self.terms.model is None else f"{REMOTE}:{self.terms.model}"

    @property
    def offers_logprobs(self) -> bool:
        """See Executor."""
        return self.terms.offers_logprobs

    def execute(self, assignment: Assignment, instance: Instance, watch: Watch = no_verification) -> Execution:  # noqa: ARG002
        """See Executor. Steps are not checked while they are taken: they are known when the run has ended.

        Raises RemoteFailure, and RemoteStopped once `stop` is set.
        """
        asked = self._request(assignment, instance)
        try:
            over = self._follow(asked, assignment)
        except BaseException:
            with suppress(RemoteFailure):
                self.flywheel.cancel_run(asked.run)
            raise
        if over.status not in _PLAYED:
            raise self._loss_of(over)
        events = self.flywheel.events_of(over.run)
        start = start_of(events)
        if start is None or start.artifact.weights != assignment.weights:
            self._refuse_played(over.run, f"the weights {start.artifact.weights if start else 'of nobody'}", assignment)
        elif start.applied:
            self._refuse_played(over.run, f"{len(start.applied)} pieces of its own memory", assignment)
        execution = execution_of(events, self.flywheel.blob_at)
        if execution is None:
            raise self._loss_of(over)
        return execution

    def _request(self, assignment: Assignment, instance: Instance) -> RemoteStatus:
        """Ask for the run. What a former attempt at it asked for is called off, because its instance is lost.

        Raises RemoteFailure.
        """
        body = self._body(assignment, instance)
        for attempt in count():
            key = sha256(f"{self.terms.origin()}\n{assignment.run}\n{attempt}".encode()).hexdigest()
            try:
                return self.flywheel.request_run(body, key)
            except KeyInUse as earlier:
                self.flywheel.cancel_run(earlier.run)
        raise AssertionError("unreachable: counting does not end")

    def _body(self, assignment: Assignment, instance: Instance) -> dict[str, Any]:
        terms, task = self.terms, assignment.task
        suite = {
            "name": REMOTE,
            "environment": assignment.environment,
            "tasks": [{"id": task, "oracle_task": task, "instruction": assignment.instruction}],
        }
        given = {
            "model": terms.model,
            "max_cost": terms.dollars,
            "_lora_adapter": terms.reference_of(assignment.weights),
        }
        return {
            "environment": assignment.environment,
            "task": task,
            "task_suite": suite,
            "seed": instance.seed,
            "executor": "policy",
            "max_steps": assignment.max_steps,
            "max_time_minutes": terms.minutes,
            "_sampling_temperature": assignment.temperature_micro / _MICRO,
            "_instance": {
                "id": instance.instance,
                "repeat": instance.repeat or 0,
                **({"sealed": True} if assignment.is_sealed else {}),
            },
            **{name: value for name, value in given.items() if value is not None},
        }

    def _follow(self, status: RemoteStatus, assignment: Assignment) -> RemoteStatus:
        """Wait until a run is over; one that workers gave up is resumed once. Raises RemoteFailure, RemoteStopped."""
        began, wait_s, has_resumed = self.now(), _FIRST_WAIT_S, False
        while not status.is_over:
            if status.status == "parked":
                if has_resumed:
                    raise self._loss_of(status)
                has_resumed, status = True, self.flywheel.resume_run(status.run)
                continue
            if self.now() - began > 2 * 60 * self.terms.minutes:
                seconds, site = round(self.now() - began), assignment.environment
                raise RemoteRunLate(
                    url=self.flywheel.url, run=status.run, status=status.status, actual=seconds, site=site
                )
            if self.stop.wait(wait_s):
                raise RemoteStopped(run=status.run, url=self.flywheel.url)
            wait_s = min(_LONGEST_WAIT_S, 1.5 * wait_s)
            status = self.flywheel.status_of(status.run)
        return status

    def _loss_of(self, status: RemoteStatus) -> RemoteRunLost:
        actual = status.reason or "and its end is not among its events"
        return RemoteRunLost(url=self.flywheel.url, run=status.run, status=status.status, actual=actual)

    def _refuse_played(self, run: str, actual: str, assignment: Assignment) -> None:
        expected = f"the weights {assignment.weights} without memory"
        raise RemotePlayedOtherwise(url=self.flywheel.url, run=run, actual=actual, expected=expected)
