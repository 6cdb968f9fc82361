"""The worker's role reactor: load each new champion into a running model server, check it, and record it once.

The bookmark is the last ArtifactDeployed of the deployment: what was deployed is not deployed again after a restart.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Event
from typing import Final

from agents.models.errors import ModelOverloaded, ModelUnreachable
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


def last_deployed(house: House, name: str) -> ArtifactDeployed | None:
    """What a deployment serves by the log; None if nothing was deployed."""
    found: ArtifactDeployed | None = None
    for recorded in house.store.read(stream=stream_of_deployment(name), types=(ArtifactDeployed.__name__,)):
        found = recorded.event if isinstance(recorded.event, ArtifactDeployed) else found
    return found


def react(house: House, name: str, load: Load, say: Callable[[str], None], ended: Event, follow: bool) -> None:  # noqa: FBT001
    """Deploy the champion, unless it was; with `follow` each later one, until `ended` is set. Raises OutageTooLong."""
    deployment, seen = Deployment(name), 0
    while True:
        pause = PAUSE_S
        with suppress_lost_connection():
            moved = [each.position for each in house.store.read(stream=STREAM, after=Position(seen))]
            if moved and _has_deployed(house, deployment, load, say):
                seen = moved[-1]
            elif moved:
                pause = RETRY_S
        if not follow or ended.wait(pause):
            return


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
