"""The rolling summary: progress, confidence trend, the last iterations in detail, older ones as a line each. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

TREND: Final = 6
_MICRO: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class SummaryEntry:
    """A delegation: its iteration, mean confidence in millionths, and findings as a line."""

    iteration: int
    confidence: int
    findings: str


def rolling_summary(entries: Sequence[SummaryEntry], window: int) -> str:
    """The summary as Markdown, from the delegations of a loop, the oldest first."""
    if not entries:
        return "# Rolling Summary\n\n## Progress\n- Iteration: 0\n- Current Confidence: none yet\n"
    last, recent, older = entries[-1], entries[-window:], entries[:-window]
    lines = [
        "# Rolling Summary",
        "",
        "## Progress",
        f"- Iteration: {last.iteration}",
        f"- Current Confidence: {in_words(last.confidence)}",
        "",
        "## Confidence Trend",
        " → ".join(f"Iter {each.iteration}: {in_words(each.confidence)}" for each in entries[-TREND:]),
        "",
        "## Recent Iterations (Detail)",
    ]
    for each in reversed(recent):
        lines += [f"### Iteration {each.iteration}", f"- Confidence: {in_words(each.confidence)}"]
        lines += [f"- Findings: {each.findings}"] if each.findings else []
    if older:
        lines += ["", "## Older Iterations (Summary)"]
        lines += [f"- Iter {each.iteration}: confidence={in_words(each.confidence)}" for each in older]
    return "\n".join(lines) + "\n"


def in_words(confidence: int) -> str:
    """A confidence with two digits after the point."""
    return f"{confidence / _MICRO:.2f}"
