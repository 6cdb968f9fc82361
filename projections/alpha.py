"""Alpha: the gate's ledger of the alpha available on each benchmark and the evaluations that spent it."""

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


class AlphaState(FoldState, frozen=True, kw_only=True):
    """A benchmark's ledger: `alpha` in millionths over all `challengers`.

    Alpha is spent when an evaluation opens. It comes back only from one that ended void before anybody looked.
    """

    benchmark: str = ""
    alpha: int = 0
    challengers: int = 0
    spendings: tuple[Spending, ...] = ()

    @property
    def spent_total(self) -> int:
        """Alpha spent by all evaluations, in millionths."""
        return sum(spending.alpha for spending in self.spendings if not spending.is_returned)

    @property
    def challenges(self) -> int:
        """Number of challengers judged or being judged, not counting evaluations from before the ledger existed."""
        return sum(spending.challenge > 0 and not spending.is_returned for spending in self.spendings)

    @property
    def last_number(self) -> int:
        """Number of the last evaluation that was opened; 0 if there is none."""
        return max((spending.challenge for spending in self.spendings), default=0)

    @property
    def is_exhausted(self) -> bool:
        """True if no further challenger may be judged."""
        return self.challenges >= self.challengers


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
    },
    initial=AlphaState(),
    key=lambda row: row.text("benchmark"),
    fold=_fold,
)
