"""The stall detector's memory of each delegation loop: its window, its warnings, the strategies it switched to."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from ..engine.projection import EventRow, Fold, FoldState
from .budgets import loop_stream

KEPT = 101
"""One iteration more than the longest window."""


class Watched(Struct, frozen=True, kw_only=True):
    """An iteration in the window: mean confidence in millionths, address of the output that is compared."""

    confidence: int
    output: str


class StallState(FoldState, frozen=True, kw_only=True):
    """The window since the last switch, the newest last, and the warnings in it. `used` are strategies, in order."""

    window: tuple[Watched, ...] = ()
    warnings: int = 0
    used: tuple[str, ...] = ()
    signal: str = ""


def _fold(state: StallState, row: EventRow) -> StallState:
    if row.type == "StrategySwitched":
        return replace(state, window=(), warnings=0, used=(*state.used, row.text("strategy")))
    signal = row.text("signal")
    seen = Watched(confidence=row.number("confidence"), output=row.text("output"))
    warnings = state.warnings + 1 if signal == "warn" else state.warnings
    return replace(state, window=(*state.window, seen)[-KEPT:], warnings=warnings, signal=signal)


LOOP_STALLS = Fold(
    name="loop_stalls",
    version=1,
    reads={
        "StallSignalled": ("loop", "signal", "confidence", "output"),
        "StrategySwitched": ("loop", "strategy"),
    },
    initial=StallState(),
    key=lambda row: row.text("loop"),
    fold=_fold,
    stream_of=loop_stream,
)
