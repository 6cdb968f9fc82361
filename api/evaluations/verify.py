"""Recomputes verdicts from the log and compares them byte for byte with the recorded ones.

A verdict depends only on events, never on blobs, so it can be recomputed after any erasure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from projections.verdicts import VERDICTS, VerdictState

from ..errors import Unknown
from ..house import House
from ..queries.untold import may_tell
from ..queries.verdicts import tell_as_text
from .evaluate import judge_again

Outcome = Literal["equal", "different"]


@dataclass(frozen=True, slots=True)
class Recomputed:
    """One verdict: the recorded decision, and the recorded and the recomputed verdict as JSON.

    `told` is both as they may be shown: without sealed figures while the benchmark can judge.
    """

    evaluation: str
    decision: str
    recorded: str
    again: str
    told: tuple[str, str]

    @property
    def outcome(self) -> Outcome:
        """Outcome of the byte-for-byte comparison."""
        return "equal" if self.again == self.recorded else "different"

    def summary(self) -> dict[str, Any]:
        """The outcome without the verdicts."""
        return {
            "evaluation": self.evaluation,
            "equal": self.outcome == "equal",
            "outcome": self.outcome,
            "decision": self.decision,
        }


def recompute(house: House, state: VerdictState) -> Recomputed:
    """Recompute the verdict of one evaluation. Raises Unknown if it has no verdict."""
    verdict = state.verdict_reached()
    if verdict is None:
        way_out = "The evaluation has no verdict yet; `flywheel run` continues it."
        raise Unknown(what="verdict", actual=state.evaluation, way_out=way_out)
    again = judge_again(house, state.evaluation)
    is_told = may_tell(house.views(), state.benchmark, state.evaluation)
    recorded, computed = verdict.model_dump_json(), again.model_dump_json()
    told = tell_as_text(verdict, is_told=is_told), tell_as_text(again, is_told=is_told)
    return Recomputed(state.evaluation, verdict.decision, recorded, computed, told)


def recompute_all(house: House) -> tuple[Recomputed, ...]:
    """Recompute every verdict in the log, ordered by evaluation; evaluations without a verdict are skipped."""
    states = house.views().find(VERDICTS).values()
    return tuple(recompute(house, state) for state in states if state.verdict is not None)
