"""Verdicts judged again from the log, and compared byte for byte with what was recorded.

A verdict rests on events alone, never on blobs, so an erasure leaves it as it is and there is no third outcome.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from projections.verdicts import VERDICTS, VerdictState

from ..errors import Unknown
from ..house import House
from .evaluate import judge_again

Outcome = Literal["equal", "different"]


@dataclass(frozen=True, slots=True)
class Recomputed:
    """One verdict: the decision that was recorded, and the whole verdict as it was and as it comes out now, as JSON."""

    evaluation: str
    decision: str
    recorded: str
    again: str

    @property
    def outcome(self) -> Outcome:
        """Whether they are the same bytes."""
        return "equal" if self.again == self.recorded else "different"

    def summary(self) -> dict[str, Any]:
        """The outcome without the bytes."""
        return {
            "evaluation": self.evaluation,
            "equal": self.outcome == "equal",
            "outcome": self.outcome,
            "decision": self.decision,
        }


def recompute(house: House, state: VerdictState) -> Recomputed:
    """Judge one evaluation again. Raises Unknown where it has no verdict."""
    verdict = state.verdict_reached()
    if verdict is None:
        way_out = "It has not been reached; `flywheel run` goes on with it."
        raise Unknown(what="verdict", actual=state.evaluation, way_out=way_out)
    again = judge_again(house, state.evaluation)
    return Recomputed(state.evaluation, verdict.decision, verdict.model_dump_json(), again.model_dump_json())


def recompute_all(house: House) -> tuple[Recomputed, ...]:
    """Every verdict in the log, in order of evaluation; evaluations without one are left out."""
    states = house.views().find(VERDICTS).values()
    return tuple(recompute(house, state) for state in states if state.verdict is not None)
