"""Alpha: the gate's ledger of the alpha of each benchmark, and the evaluations and inspections that spent it."""

from __future__ import annotations

from msgspec.structs import replace

from .engine.projection import EventRow, Fold, FoldState


class Spending(FoldState, frozen=True, kw_only=True):
    """One opened evaluation: its number on the benchmark, and the alpha it spent, in millionths.

    `is_returned`: it ended void before anybody looked at an outcome, so its alpha was not spent.
    """

    evaluation: str
    challenge: int
    alpha: int
    since: int
    is_returned: bool = False


class Inspection(FoldState, frozen=True, kw_only=True):
    """Sealed figures of an evaluation that were shown while the benchmark could judge, and the alpha that it cost."""

    evaluation: str
    alpha: int
    since: int


class AlphaState(FoldState, frozen=True, kw_only=True):
    """A benchmark's ledger: `alpha` in millionths over all `challengers`.

    Alpha is spent when an evaluation opens. It comes back only from one that ended void before anybody looked. Each of
    the `inspections` spends the share of one challenger.
    """

    benchmark: str = ""
    alpha: int = 0
    challengers: int = 0
    spendings: tuple[Spending, ...] = ()
    inspections: tuple[Inspection, ...] = ()

    @property
    def spent_total(self) -> int:
        """Alpha spent by all evaluations and inspections, in millionths."""
        return self.spent_until(None)

    def spent_until(self, position: int | None) -> int:
        """Alpha spent up to a position (None: in all), in millionths."""
        alphas = [(each.since, each.alpha) for each in self.spendings if not each.is_returned]
        alphas += [(each.since, each.alpha) for each in self.inspections]
        return sum(alpha for since, alpha in alphas if position is None or since <= position)

    @property
    def challenges(self) -> int:
        """Number of challengers judged or being judged, not counting evaluations from before the ledger existed."""
        return sum(spending.challenge > 0 and not spending.is_returned for spending in self.spendings)

    @property
    def last_number(self) -> int:
        """Number of the last evaluation that was opened; 0 if there is none."""
        return max((spending.challenge for spending in self.spendings), default=0)

    @property
    def challengers_left(self) -> int:
        """Number of challengers that may still be judged."""
        return max(0, self.challengers - self.challenges - len(self.inspections))

    @property
    def is_exhausted(self) -> bool:
        """True if no further challenger may be judged."""
        return self.challengers_left == 0


def _fold(state: AlphaState, row: EventRow) -> AlphaState:
    if row.type == "BenchmarkFrozen":
        return replace(
            state,
            benchmark=row.text("benchmark"),
            alpha=row.number("alpha"),
            challengers=row.number("challengers"),
        )
    if row.type == "AlphaReturned":
        name = row.text("evaluation")
        kept = (replace(each, is_returned=each.is_returned or each.evaluation == name) for each in state.spendings)
        return replace(state, spendings=tuple(kept))
    if row.type == "SealedInspected":
        look = Inspection(evaluation=row.text("evaluation"), alpha=row.number("alpha"), since=row.position)
        return replace(state, inspections=(*state.inspections, look))
    spending = Spending(
        evaluation=row.text("evaluation"),
        challenge=row.number("challenge"),
        alpha=row.number("alpha"),
        since=row.position,
    )
    return replace(state, benchmark=row.text("benchmark"), spendings=(*state.spendings, spending))


ALPHA = Fold(
    name="alpha",
    version=3,
    reads={
        "BenchmarkFrozen": ("benchmark", "alpha", "challengers"),
        "AlphaReturned": ("benchmark", "evaluation"),
        "EvaluationOpened": ("benchmark", "evaluation", "challenge", "alpha"),
        "SealedInspected": ("benchmark", "evaluation", "alpha"),
    },
    initial=AlphaState(),
    key=lambda row: row.text("benchmark"),
    fold=_fold,
)
