"""The champion: a pointer to an artifact, moved by appending an event."""

from __future__ import annotations

from typing import Literal

from .event import Event, Name
from .memory import Artifact


class ChampionPointed(Event):
    """From this position on, the artifact is champion. `evaluation` is set if the gate promoted it."""

    type: Literal["ChampionPointed"] = "ChampionPointed"
    artifact: Artifact
    by: Literal["genesis", "gate", "operator", "rollback"]
    reason: str
    evaluation: Name | None
