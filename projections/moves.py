"""The sections of a difference between two positions, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from .costs import PriceBook


@dataclass(frozen=True, slots=True)
class Pointing:
    """One move of the champion pointer: position, target, author, reason and evaluation."""

    since: int
    champion: str
    by: str
    actor: str
    reason: str
    evaluation: str | None


@dataclass(frozen=True, slots=True)
class ChampionChange:
    """The champion before and after (None: no champion yet), with every move in between."""

    before: str | None
    after: str | None
    moves: tuple[Pointing, ...]


@dataclass(frozen=True, slots=True)
class StatusChange:
    """A rewrite's status from a position on, with its wins and losses at that time."""

    since: int
    status: str
    wins: int
    losses: int


@dataclass(frozen=True, slots=True)
class RewriteMoved:
    """A rewrite whose status changed. `wins` and `losses` count those in between; `before` is None if it is new."""

    rewrite: str
    intent: str
    change: Mapping[str, Any]
    before: str | None
    after: str
    turns: tuple[StatusChange, ...]
    wins: int
    losses: int


@dataclass(frozen=True, slots=True)
class RunsPlayed:
    """Runs of one template, inside or outside evaluations. Ungraded runs count as neither passed nor failed.

    `rate` is the pass rate of the runs graded in between, `rate_before` of those graded before, in millionths, rounded
    down; None if none was graded. `regraded` counts runs whose grade changed. Where a sealed run is among them that may
    not be told of, whatever tells results is None.
    """

    environment: str
    template: str
    is_evaluation: bool
    started: int
    ended: int
    passed: int | None
    failed: int | None
    missing: int
    regraded: int | None
    rate: int | None
    rate_before: int | None


@dataclass(frozen=True, slots=True)
class ClusterMoved:
    """A failure cluster, and its number of failed runs before and after."""

    environment: str
    template: str
    failure_class: str
    step_intent: str
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class DatasetAdded:
    """A dataset that was frozen in between."""

    dataset: str
    since: int
    kind: str
    rows: int
    groups: int


@dataclass(frozen=True, slots=True)
class VerdictMoved:
    """An evaluation that was opened or decided. `decision` is None while its arms are still playing."""

    evaluation: str
    benchmark: str
    champion: str
    challenger: str
    decision: str | None
    mean_delta: int | None
    pairs: int | None


@dataclass(frozen=True, slots=True)
class PricesMoved:
    """The price book in force before and after, in micro-dollars."""

    before: PriceBook | None
    after: PriceBook | None


@dataclass(frozen=True, slots=True)
class CostsMoved:
    """Costs in between: micro-dollars `spent` by `runs` graded runs, of which `unknown` have an unknown cost.

    `spent` is None where the cost of sealed runs that may not be told of is part of it.
    """

    spent: int | None
    runs: int
    unknown: int


@dataclass(frozen=True, slots=True)
class TokenMoved:
    """A token that was issued or revoked."""

    token: str
    role: str
    became: str


@dataclass(frozen=True, slots=True)
class Difference:
    """All changes between positions `before` and `after`. Empty or None means unchanged."""

    before: int
    after: int
    champion: ChampionChange | None
    rewrites: tuple[RewriteMoved, ...]
    runs: tuple[RunsPlayed, ...]
    failures: tuple[ClusterMoved, ...]
    benchmarks: tuple[str, ...]
    datasets: tuple[DatasetAdded, ...]
    verdicts: tuple[VerdictMoved, ...]
    prices: PricesMoved | None
    costs: CostsMoved | None
    tokens: tuple[TokenMoved, ...]

    @property
    def is_empty(self) -> bool:
        """True if nothing changed."""
        return not any(getattr(self, part.name) for part in fields(self) if part.name not in {"before", "after"})
