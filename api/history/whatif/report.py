"""The report of a what-if, section by section. An empty section means that nothing would differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from projections.moves import StatusChange

_ASKED = frozenset({"upto", "rule", "reward"})


@dataclass(frozen=True, slots=True)
class Worth:
    """Grade of a run: score and value in millionths, cost in micro-dollars, None: unknown."""

    score: int
    passed: bool
    cost: int | None
    value: int | None


@dataclass(frozen=True, slots=True)
class RewardWouldBe:
    """A run whose reward would differ."""

    run: str
    position: int
    actual: Worth
    would: Worth


@dataclass(frozen=True, slots=True)
class Ungraded:
    """A run whose other reward cannot be computed, and why. Its recorded reward is used instead."""

    run: str
    why: str


@dataclass(frozen=True, slots=True)
class RewriteWouldBe:
    """A rewrite whose status would have changed at other positions or to another status.

    `wins` are the runs of the winning streak behind the last promotion under the other definition.
    """

    rewrite: str
    change: Mapping[str, str]
    actual: tuple[StatusChange, ...]
    would: tuple[StatusChange, ...]
    wins: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of a verdict, as recorded and as it would be."""

    name: str
    actual: Any
    would: Any


@dataclass(frozen=True, slots=True)
class VerdictWouldBe:
    """A verdict whose decision or figures would differ."""

    evaluation: str
    actual: str
    would: str
    reasons: tuple[str, ...]
    figures: tuple[Figure, ...]


@dataclass(frozen=True, slots=True)
class ChampionWouldBe:
    """The champion as recorded, and as it would be."""

    actual: str | None
    would: str | None


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The same runs under another rule or reward, up to a position.

    Runs are not played again: a run that would have carried other pieces keeps its recorded outcome.
    """

    upto: int
    rule: Mapping[str, Any] | None
    reward: Mapping[str, Any] | None
    rewards: tuple[RewardWouldBe, ...]
    ungraded: tuple[Ungraded, ...]
    rewrites: tuple[RewriteWouldBe, ...]
    verdicts: tuple[VerdictWouldBe, ...]
    champion: ChampionWouldBe | None

    @property
    def is_empty(self) -> bool:
        """True if nothing would differ."""
        return not any(getattr(self, part.name) for part in fields(self) if part.name not in _ASKED)
