"""What health, readiness and the keeping of bytes answer with."""

from __future__ import annotations

from typing import Literal

import msgspec


class ProjectionStanding(msgspec.Struct, frozen=True, omit_defaults=True):
    """How far a projection has read; `parked_at` is where it stopped, if it did."""

    position: int
    parked_at: int | None = None


class HealthAnswer(msgspec.Struct, frozen=True):
    """The head of the log, and how far each projection has read."""

    head: int
    projections: dict[str, ProjectionStanding]
    status: Literal["ok"] = "ok"


class ReadyAnswer(msgspec.Struct, frozen=True):
    """Requests can be served: the head of the log, and how many events the slowest projection is behind."""

    head: int
    behind: int
    status: Literal["ready"] = "ready"


class BlobAnswer(msgspec.Struct, frozen=True):
    """The address of bytes that are kept."""

    address: str
