"""The worker's role reactor: load each new champion into a running model server, check it, and record it once.

The bookmark is the last ArtifactDeployed of the deployment: what was deployed is not deployed again after a restart.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import Event
from time import monotonic
from typing import Final, Protocol

from agents.models.errors import ModelOverloaded, ModelUnreachable
from agents.models.model import Model
from agents.rollouts.dispatching.outages import suppress_lost_connection
from eventlog.errors import FlywheelError, LogUnavailable
from eventlog.events import ArtifactDeployed
from eventlog.store import Position
from gate.promote import STREAM
from projections.champions import CHAMPION, CHAMPIONS

from ..house import House
from .deployments import PASSING_ERRORS, PAUSE_S, Deployment, Load, deploy_champion, stream_of_deployment

RETRY_S: Final = 5.0
"""Seconds until a model server that did not answer is asked again."""
LOOK_S: Final = 5.0
"""Seconds between two looks whether a model server still has what was deployed there."""


def last_deployed(house: House, name: str) -> ArtifactDeployed | None:
    """What a deployment serves by the log; None if nothing was deployed."""
    found: ArtifactDeployed | None = None
    for recorded in house.store.read(stream=stream_of_deployment(name), types=(ArtifactDeployed.__name__,)):
        found = recorded.event if isinstance(recorded.event, ArtifactDeployed) else found
    return found


class AdapterServer(Protocol):
    """A model server that loads weights while it runs, such as VllmServer."""

    def model_of(self, weights: str) -> Model:
        """The model of some weights, which are loaded. Raises FlywheelError."""
        ...

    def restore(self, weights: str) -> bool:
        """Have weights that the server lost loaded again; True if it had lost them. Raises FlywheelError."""
        ...


def react(
    house: House,
    name: str,
    server: AdapterServer,
    say: Callable[[str], None],
    ended: Event,
    follow: bool,  # noqa: FBT001
    now: Callable[[], float] = monotonic,
) -> None:
    """Deploy the champion, unless it was; with `follow` each later one, until `ended` is set. Raises OutageTooLong.

    What was deployed and is lost, because the model server was restarted, is loaded again. `now` is a clock in seconds.
    """
    deployment, watch, seen = Deployment(name), _Watch(name, server, say, now), 0
    while True:
        pause = PAUSE_S
        with suppress_lost_connection():
            moved = [each.position for each in house.store.read(stream=STREAM, after=Position(seen))]
            if moved and not _has_deployed(house, deployment, server.model_of, say):
                pause = RETRY_S
            else:
                seen = moved[-1] if moved else seen
                watch.look(house)
        if not follow or ended.wait(pause):
            return


@dataclass
class _Watch:
    """Looks now and then whether a model server still has what was deployed there; says each problem once."""

    name: str
    server: AdapterServer
    say: Callable[[str], None]
    now: Callable[[], float]
    due: float | None = None
    said: str = ""

    def look(self, house: House) -> None:
        """Have the server load again what it lost, if a look is due. Raises LogUnavailable."""
        now = self.now()
        if self.due is not None and now < self.due:
            return
        self.due = now + LOOK_S
        try:
            self._look(house)
            self.said = ""
        except LogUnavailable:
            raise
        except FlywheelError as problem:
            if str(problem) != self.said:
                self.said = str(problem)
                self.say(f"{self.name} may have lost what was deployed: {problem}")

    def _look(self, house: House) -> None:
        deployed = last_deployed(house, self.name)
        if deployed is not None and self.server.restore(deployed.artifact.weights):
            self.say(f"{self.name} has {deployed.artifact} again, which its server had lost")


def _has_deployed(house: House, deployment: Deployment, load: Load, say: Callable[[str], None]) -> bool:
    """Deploy the present champion unless it was; False if server or log fail in passing, so that it is tried again.

    Raises LogUnavailable.
    """
    before = last_deployed(house, deployment.name)
    champion = house.views().get(CHAMPIONS, CHAMPION)
    if champion is None or (before is not None and before.pointed >= champion.since):
        return True
    kept = None if before is None else before.artifact.weights
    try:
        deploy_champion(house, deployment, load, kept)
    except LogUnavailable:
        raise
    except FlywheelError as problem:
        say(f"{deployment.name} keeps {kept or 'what it has'}: {problem}")
        return not isinstance(problem, (ModelUnreachable, ModelOverloaded, *PASSING_ERRORS))
    present = deployment.present
    say(f"{deployment.name} serves {present.artifact} as {present.model.name}, champion since {present.pointed}")
    return True
