"""The champion as it is served: requests take the present model, and a swap lets those in flight finish with theirs.

A change of the champion's pointer is followed: its weights are loaded, checked with a smoke prompt, swapped in and
recorded. Weights that cannot be served leave the present ones in place, with the reason on an event.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Condition, Event, Thread
from typing import Final

from sqlalchemy.exc import SQLAlchemyError

from agents.models.model import ChatMessage, CompletionRequest, Model
from eventlog.errors import DatabaseRefused, FlywheelError, LogUnavailable, StatementEnded
from eventlog.events import Artifact, ArtifactDeployed, DeploymentFailed, Sampling
from eventlog.store import Append, Position
from gate.promote import STREAM
from projections.errors import ProjectionParked

from ..house import House
from ..queries.champion import show_champion
from .errors import DeploymentBroken, NothingDeployed

_LOG = logging.getLogger(__name__)

NAME: Final = "serve"
ACTOR: Final = "serve"
PAUSE_S: Final = 0.5
"""Seconds between two looks at the champion's stream."""
_SMOKE: Final = CompletionRequest(
    (ChatMessage("user", ("Say one word.",)),), Sampling(temperature_micro=0, max_tokens=4)
)

Load = Callable[[str], Model]
"""Loads some weights: `base`, or the digest of a checkpoint."""

PASSING_ERRORS: Final = (LogUnavailable, StatementEnded, DatabaseRefused, ProjectionParked)
"""What says nothing of the weights: the log does not give or take what is needed now, and may do so later."""


@dataclass(slots=True, eq=False)
class DeployedModel:
    """A champion in memory, the position of its pointer, and how many requests it is answering."""

    artifact: Artifact
    pointed: int
    model: Model
    in_flight: int = 0


@dataclass
class Deployment:
    """The model by which a server answers. Thread-safe."""

    name: str = NAME
    _present: DeployedModel | None = None
    _changed: Condition = field(default_factory=Condition)

    @property
    def present(self) -> DeployedModel:
        """The model that new requests get. Raises NothingDeployed."""
        found = self._present
        if found is None:
            raise NothingDeployed(deployment=self.name)
        return found

    def is_of(self, weights: str) -> bool:
        """True if new requests are answered by these weights."""
        return self._present is not None and self._present.artifact.weights == weights

    @contextmanager
    def take(self) -> Iterator[DeployedModel]:
        """The present model for one request, which keeps it until the block ends. Raises NothingDeployed."""
        with self._changed:
            found = self.present
            found.in_flight += 1
        try:
            yield found
        finally:
            with self._changed:
                found.in_flight -= 1
                self._changed.notify_all()

    def swap(self, new: DeployedModel) -> DeployedModel | None:
        """Have new requests get another model; returns the former one, which requests in flight still use."""
        with self._changed:
            former, self._present = self._present, new
        return former

    def drain(self, former: DeployedModel, timeout_s: float) -> bool:
        """Wait until no request uses a former model; False if some still do after `timeout_s`."""
        with self._changed:
            return self._changed.wait_for(lambda: former.in_flight == 0, timeout_s)


def stream_of_deployment(name: str) -> str:
    """The stream of a deployment's events."""
    return f"deployment/{name}"


def deploy_champion(
    house: House, deployment: Deployment, load: Load, before: str | None = None
) -> DeployedModel | None:
    """Serve the present champion unless it is served; returns the former model, None if there was none or no change.

    `before` names the weights that a server outside has kept from an earlier process. What the log says last of the
    deployment is not said again. Raises NoChampion and PASSING_ERRORS, and after the failure was recorded what `load`
    and the model raise of FlywheelError, or DeploymentBroken for an error of a library; the present model then stays.
    """
    champion = show_champion(house.views()).champion
    artifact, pointed = champion.pointed_artifact(), champion.since
    kept = deployment._present
    if kept is not None and kept.pointed == pointed:
        return None
    try:
        model = _checked_model(load, artifact.weights)
    except PASSING_ERRORS:
        raise
    except FlywheelError as problem:
        failed = DeploymentFailed(
            deployment=deployment.name,
            artifact=artifact,
            pointed=pointed,
            reason=str(problem),
            kept=before if kept is None else kept.artifact.weights,
        )
        _record(house, deployment, failed)
        raise
    deployed = ArtifactDeployed(deployment=deployment.name, artifact=artifact, pointed=pointed, model=model.name)
    _record(house, deployment, deployed)  # before the swap: a model that is served already is not looked at again
    return deployment.swap(DeployedModel(artifact, pointed, model))


def _checked_model(load: Load, weights: str) -> Model:
    """The model of these weights, which has answered. Raises FlywheelError, SQLAlchemyError."""
    try:
        model = load(weights)
        model.complete(_SMOKE)
    except (FlywheelError, SQLAlchemyError):
        raise
    except Exception as problem:  # a library's own: no memory, a file that cannot be read, a shape that does not fit
        raise DeploymentBroken(actual=repr(problem)) from problem
    return model


def _record(house: House, deployment: Deployment, event: ArtifactDeployed | DeploymentFailed) -> None:
    """Append what happened, unless the log says the same last: a restart deploys nothing new."""
    stream = stream_of_deployment(deployment.name)
    *_, last = (None, *(each.event for each in house.store.read(stream=stream)))
    if last != event:
        house.store.append([Append(stream, (event,), ACTOR)])


@contextmanager
def follow_champion(house: House, deployment: Deployment, load: Load, say: Callable[[str], None]) -> Iterator[None]:
    """Deploy each new champion until the block ends, in a thread that looks at the champion's stream."""
    stop = Event()
    thread = Thread(target=_follow, args=(house, deployment, load, say, stop), name="follows the champion", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _follow(house: House, deployment: Deployment, load: Load, say: Callable[[str], None], stop: Event) -> None:
    seen, logged = deployment.present.pointed, ""
    while not stop.wait(PAUSE_S):
        try:
            moved = [each.position for each in house.store.read(stream=STREAM, after=Position(seen))]
            if moved:
                _deploy_and_say(house, deployment, load, say)
                seen = moved[-1]
        except (FlywheelError, SQLAlchemyError, OSError) as problem:  # the next look asks for the same moves
            if str(problem) != logged:
                _LOG.exception("still serving %s, and looking for a new champion again", deployment.present.artifact)
            logged = str(problem)


def _deploy_and_say(house: House, deployment: Deployment, load: Load, say: Callable[[str], None]) -> None:
    """Serve the champion and say so, or why the present model stays. Raises PASSING_ERRORS."""
    before = deployment.present
    try:
        former = deploy_champion(house, deployment, load)
    except PASSING_ERRORS:
        raise
    except FlywheelError as problem:
        return say(f"still serving {before.artifact}: {problem}")
    present = deployment.present
    if present is before:  # a verdict that moved nothing
        return None
    waits = "" if former is None or not former.in_flight else f"; {former.in_flight} calls end with the former one"
    return say(f"serving {present.artifact}, champion since position {present.pointed}{waits}")
