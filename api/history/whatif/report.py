"""What a what-if answers, section by section. Empty sections: nothing would differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from projections.moves import StatusChange

_ASKED = frozenset({"upto", "rule", "reward"})


@dataclass(frozen=True, slots=True)
class Worth:
    """What a run was graded: scores and values in millionths, cost in micro-dollars, None: unknown."""

    score: int
    passed: bool
    cost: int | None
    value: int | None


@dataclass(frozen=True, slots=True)
class RewardWouldBe:
    """A run whose reward would be another one."""

    run: str
    position: int
    actual: Worth
    would: Worth


@dataclass(frozen=True, slots=True)
class Ungraded:
    """A run that the other reward cannot be made for, and why; its recorded reward stands in."""

    run: str
    why: str


@dataclass(frozen=True, slots=True)
class RewriteWouldBe:
    """A rewrite whose status would have turned at other positions, or not.

    `wins` are the runs of the streak that the last promotion under the other definition rests on.
    """

    rewrite: str
    change: Mapping[str, str]
    actual: tuple[StatusChange, ...]
    would: tuple[StatusChange, ...]
    wins: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Unplayed:
    """A run that would have been another one: what it would have applied was never played."""

    run: str
    of: str
    applied: tuple[str, ...]
    would_apply: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Asked:
    """An evaluation that would have been asked for and was never opened: so many runs, of these pieces of memory."""

    benchmark: str
    runs: int
    pieces: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DatasetWouldBe:
    """A frozen dataset whose rows would be others.

    Runs come and go whole; `revalued` counts rows that stay and are worth something else. `why` says why rows could not
    be made; then there is no other digest.
    """

    dataset: str
    upto: int
    would: str | None
    rows: int
    would_rows: int | None
    added: tuple[str, ...]
    removed: tuple[str, ...]
    revalued: int
    why: str | None = None


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of a verdict, as it is and as it would be."""

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
    """Who is champion, and who would be."""

    actual: str | None
    would: str | None


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The same runs under another rule or reward, up to a position.

    `untold` names evaluations that were decided by runs that would have been others: what they would have come to, and
    the champion after them, is not known.
    """

    upto: int
    rule: Mapping[str, Any] | None
    reward: Mapping[str, Any] | None
    rewards: tuple[RewardWouldBe, ...]
    ungraded: tuple[Ungraded, ...]
    rewrites: tuple[RewriteWouldBe, ...]
    unplayed: tuple[Unplayed, ...]
    asked: tuple[Asked, ...]
    datasets: tuple[DatasetWouldBe, ...]
    verdicts: tuple[VerdictWouldBe, ...]
    champion: ChampionWouldBe | None
    untold: tuple[str, ...]

    @property
    def is_empty(self) -> bool:
        """Whether nothing would differ."""
        return not any(getattr(self, part.name) for part in fields(self) if part.name not in _ASKED)
