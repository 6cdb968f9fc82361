"""The champion: a pointer to an artifact, moved by appending an event."""

from __future__ import annotations

from typing import Literal

from .event import Count, Event, Name
from .memory import Artifact


class ChampionPointed(Event):
    """From this position on, the artifact is champion. `evaluation` is set if the gate promoted it."""

    type: Literal["ChampionPointed"] = "ChampionPointed"
    artifact: Artifact
    by: Literal["genesis", "gate", "operator", "rollback"]
    reason: str
    evaluation: Name | None


class ArtifactDeployed(Event):
    """A server answers by the champion that was pointed to at position `pointed`: its weights passed a smoke prompt.

    `model` is the name by which calls record it.
    """

    type: Literal["ArtifactDeployed"] = "ArtifactDeployed"
    deployment: Name
    artifact: Artifact
    pointed: Count
    model: Name


class DeploymentFailed(Event):
    """A server cannot answer by the champion that was pointed to at position `pointed`.

    It goes on with the weights `kept`; None: it serves nothing.
    """

    type: Literal["DeploymentFailed"] = "DeploymentFailed"
    deployment: Name
    artifact: Artifact
    pointed: Count
    reason: str
    kept: Name | None
