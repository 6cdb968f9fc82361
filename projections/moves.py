"""What may change between two positions, as values: one for each section of a difference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from .costs import PriceBook


@dataclass(frozen=True, slots=True)
class Pointing:
    """One move of the champion: since when, to what, by whom, why, on what evaluation."""

    since: int
    champion: str
    by: str
    actor: str
    reason: str
    evaluation: str | None


@dataclass(frozen=True, slots=True)
class ChampionChange:
    """Who was champion and who is, with every move in between. None: there was none yet."""

    before: str | None
    after: str | None
    moves: tuple[Pointing, ...]


@dataclass(frozen=True, slots=True)
class StatusChange:
    """From this position on a rewrite had this status, after so many wins and losses."""

    since: int
    status: str
    wins: int
    losses: int


@dataclass(frozen=True, slots=True)
class RewriteMoved:
    """A rewrite whose status turned. `wins` and `losses` are those in between; `before` None: it was proposed since."""

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
    """Runs of one template, inside or outside evaluations. Runs that ended ungraded neither passed nor failed.

    `rate` is the share that passed of those graded in between, `rate_before` of those graded before, in millionths,
    rounded down; None where none was graded. `regraded` counts runs whose grade changed.
    """

    environment: str
    template: str
    is_evaluation: bool
    started: int
    ended: int
    passed: int
    failed: int
    missing: int
    regraded: int
    rate: int | None
    rate_before: int | None


@dataclass(frozen=True, slots=True)
class ClusterMoved:
    """A way to fail and how many runs failed so, before and after."""

    environment: str
    template: str
    failure_class: str
    step_intent: str
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class DatasetAdded:
    """A dataset that was frozen."""

    dataset: str
    since: int
    kind: str
    rows: int
    groups: int


@dataclass(frozen=True, slots=True)
class VerdictMoved:
    """An evaluation that was opened or decided; `decision` None: its arms are still playing."""

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
    """What was spent in between: micro-dollars of so many graded runs, and how many of them cost an unknown amount."""

    spent: int
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
    """Everything that means something else at `after` than at `before`. Empty and None: the same."""

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
        """Whether nothing means anything else."""
        return not any(getattr(self, part.name) for part in fields(self) if part.name not in {"before", "after"})
