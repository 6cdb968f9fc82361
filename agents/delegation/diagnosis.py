"""Diagnoses: how many a loop may make, and what closes a hypothesis. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from .envelopes import Envelope

MOST_IN_A_ROW: Final = 2
CONFIRMED_ABOVE: Final = 500_000
HypothesisStatus = Literal["untested", "confirmed", "refuted"]


def diagnosis_refusal(kinds: Sequence[str], most_loops: int) -> str | None:
    """Why another diagnosis is refused after these decisions, oldest first; None if it may be made.

    At most a quarter of the loops (at least 3) are diagnoses, and after two in a row two delegations come first.
    """
    made = kinds.count("diagnose")
    if made >= max(3, most_loops // 4):
        return f"{made} diagnoses were made; delegate instead"
    cooled = 0
    for kind in reversed(kinds):
        if kind == "delegate":
            cooled += 1
        elif kind == "diagnose":
            break
    last_two = [kind for kind in kinds if kind in {"diagnose", "delegate"}]
    trailing = last_two[: len(last_two) - cooled]
    if trailing[-MOST_IN_A_ROW:] == ["diagnose"] * MOST_IN_A_ROW and cooled < MOST_IN_A_ROW:
        return "two diagnoses in a row; delegate twice before the next"
    return None


def tester_of(hypothesis: str, cause: str, test: str) -> Envelope:
    """The envelope of a light diagnostic worker, whose confidence closes a hypothesis. It may write no tools."""
    how = f" Test it so: {test}" if test else ""
    asked = f"Test the hypothesis that this is the cause: {cause}.{how}"
    return Envelope(
        worker_id=f"test-{hypothesis}",
        instructions=f"{asked}\nReport as `confidence` how sure you are that it is the cause.",
        may_create_tools=False,
        tests_hypothesis=hypothesis,
    )


def hypothesis_status(confidence: int | None) -> HypothesisStatus:
    """Status of a hypothesis after a diagnostic worker's confidence; None: no worker tested it yet."""
    if confidence is None:
        return "untested"
    return "confirmed" if confidence > CONFIRMED_ABOVE else "refuted"
