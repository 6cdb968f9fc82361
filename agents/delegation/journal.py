"""The decision journal: what was decided, and what came of it. Pure."""

from __future__ import annotations

from typing import Final

from .evaluation import mean_confidence

WEAK: Final = 300_000
EFFECTIVE: Final = 800_000


def lesson_of(confidences: tuple[int, ...]) -> str:
    """Lesson of a delegation by the confidences of its workers; empty if nothing in particular."""
    if not confidences:
        return ""
    mean = mean_confidence(confidences)
    if mean < WEAK:
        return "consider changing approach"
    return "effective" if mean > EFFECTIVE else ""


def journal_line(iteration: int, decision: str, rationale: str, confidences: tuple[int, ...]) -> str:
    """An entry of the journal as a line."""
    came = f" -> {mean_confidence(confidences) / 1_000_000:.2f}" if confidences else ""
    lesson = lesson_of(confidences)
    return f"- Iter {iteration}: {decision}{came}: {rationale[:120]}{f' ({lesson})' if lesson else ''}"
