"""Advice: the tokens of recovery's model calls about failed runs. They were paid for, so withdrawals keep them."""

from __future__ import annotations

from .engine.projection import EventRow, Fold, FoldState


class AdviceState(FoldState, frozen=True, kw_only=True):
    """The tokens of the last call about a run (None: unknown), and the position of its event."""

    since: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None


def _key(row: EventRow) -> str | None:
    return row.text("run") if row.text("role") == "recovery" else None


def _fold(_state: AdviceState, row: EventRow) -> AdviceState:
    return AdviceState(
        since=row.position,
        input_tokens=row.maybe_number("input_tokens"),
        output_tokens=row.maybe_number("output_tokens"),
    )


ADVICE = Fold(
    name="advice",
    version=2,
    reads={"ModelCalled": ("run", "role", "input_tokens", "output_tokens")},
    initial=AdviceState(),
    key=_key,
    fold=_fold,
)
