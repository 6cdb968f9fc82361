"""The champion: a pointer that only ever moves by one more event."""

from __future__ import annotations

from typing import Literal

from .event import Event, Name
from .memory import Artifact


class ChampionPointed(Event):
    """From here on this artifact is champion. By the gate with an evaluation, or by an operator with a reason."""

    type: Literal["ChampionPointed"] = "ChampionPointed"
    artifact: Artifact
    by: Literal["genesis", "gate", "operator", "rollback"]
    reason: str
    evaluation: Name | None
