"""Rewrites under another definition: changes of status and the wins behind the last promotion."""

from __future__ import annotations

from eventlog.events import RewriteWon
from eventlog.store import Position
from projections.counterfactual import Mapped
from projections.difference import status_changes
from projections.engine.views import Views
from projections.moves import StatusChange
from projections.rewrites import REWRITES

from .report import RewriteWouldBe


def rewrites(truth: Views, other: Views, mapped: Mapped) -> tuple[RewriteWouldBe, ...]:
    """Rewrites whose status would have changed at other positions or to another status, in order of id."""
    found = []
    for key, state in other.find(REWRITES).items():
        actual = status_changes(truth.history(REWRITES, key))
        would = status_changes(other.history(REWRITES, key))
        if _marks(actual) != _marks(would):
            found.append(RewriteWouldBe(key, state.change, actual, would, _streak(mapped, key, would)))
    return tuple(found)


def _marks(turns: tuple[StatusChange, ...]) -> list[tuple[int, str]]:
    return [(turn.since, turn.status) for turn in turns]


def _streak(mapped: Mapped, rewrite: str, turns: tuple[StatusChange, ...]) -> tuple[str, ...]:
    """Runs of the winning streak that led to the last promotion."""
    promoted = [turn.since for turn in turns if turn.status == "promoted"]
    if not promoted:
        return ()
    runs: list[str] = []
    stream = f"rewrite/{rewrite}"
    for item in mapped.read(stream=stream, types=("RewriteWon", "RewriteLost"), upto=Position(promoted[-1])):
        runs = [*runs, item.event.run] if isinstance(item.event, RewriteWon) else []
    return tuple(runs)
