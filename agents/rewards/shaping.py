"""Process, progress and the shaped return; `docs/rewards.md` has the formula. Pure, in millionths, rounded down.

Changing any number here requires a new SHAPING_VERSION.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from eventlog.events import RewardGraded, Step, StepOutcome, Usage, unroll
from projections.runs import PLANLESS

SHAPING_VERSION: Final = "shaped-1"

FULL: Final = 1_000_000
SCORE_WEIGHT: Final = 1_000_000
PASS_WEIGHT: Final = 1_000_000
PROGRESS_WEIGHT: Final = 500_000
PROCESS_WEIGHT: Final = 250_000
LEAST_CAP: Final = 20
EFFORT_A_STEP: Final = 4


@dataclass(frozen=True, slots=True)
class Conduct:
    """Conduct of a run for shaping: its actions, successful steps, steps taken, steps planned, and steps allowed."""

    effort: int
    succeeded: int
    taken: int
    planned: int
    max_steps: int

    def process(self) -> int:
        """See process_term."""
        return process_term(self.effort, planned=self.planned, max_steps=self.max_steps)

    def progress(self, *, passed: bool) -> int:
        """See progress_term."""
        return progress_term(self.succeeded, taken=self.taken, planned=self.planned, passed=passed)


def conduct_of(outcomes: Sequence[StepOutcome], usage: Usage, *, planned: int, max_steps: int) -> Conduct:
    """Conduct of a run from its step outcomes; if actions were not counted, each step counts as one."""
    effort = len(outcomes) if usage.actions is None else usage.actions
    succeeded = sum(outcome == "ok" for outcome in outcomes)
    return Conduct(effort, succeeded, len(outcomes), planned, max_steps)


def steps_planned(executor: str, plan: Sequence[Step], max_steps: int) -> int:
    """Number of planned steps of a run: those of the plan that it executed, or the maximum allowed without a plan.

    A loop's steps count once per iteration, up to the maximum allowed.
    """
    return max_steps if executor in PLANLESS else len(unroll(plan, max(len(plan), max_steps)))


@dataclass(frozen=True, slots=True)
class Shaped:
    """A shaped return with its terms, all in millionths; `value` and `penalty` are None where the cost is unknown."""

    version: str
    score: int
    passed: bool
    progress: int
    process: int
    penalty: int | None
    value: int | None


def process_term(effort: int, *, planned: int, max_steps: int) -> int:
    """Economy of a run: 1 - effort / max(max_steps, 4 x planned, 20), at least 0. `effort` counts actions."""
    cap = max(max_steps, EFFORT_A_STEP * planned, LEAST_CAP)
    return max(0, FULL * (cap - effort) // cap)


def progress_term(succeeded: int, *, taken: int, planned: int, passed: bool) -> int:
    """Progress of a run: 1 if it passed, else successful steps / max(planned, taken).

    Without a plan, `planned` is the maximum number of steps, so that stopping early is not progress.
    """
    return FULL if passed else FULL * min(succeeded, taken) // max(1, taken, planned)


def shaped_return(score: int, *, passed: bool, progress: int, process: int, penalty: int | None) -> Shaped:
    """Score + [passed] + progress / 2 + process x progress / 4 - penalty, in millionths.

    Process is weighted by progress, because a run that does nothing is economical but must earn nothing for it.
    """
    earned = score * SCORE_WEIGHT // FULL + (PASS_WEIGHT if passed else 0)
    shape = progress * PROGRESS_WEIGHT // FULL + PROCESS_WEIGHT * process * progress // FULL**2
    value = None if penalty is None else earned + shape - penalty
    return Shaped(SHAPING_VERSION, score, passed, progress, process, penalty, value)


def shape_reward(reward: RewardGraded, conduct: Conduct | None) -> RewardGraded:
    """Add process, progress and shaped return to a reward; all three are None without a conduct."""
    if conduct is None:
        return _with(reward, process=None, progress=None, version=None, value=None)
    process, progress = conduct.process(), conduct.progress(passed=reward.passed)
    made = shaped_return(
        reward.score, passed=reward.passed, progress=progress, process=process, penalty=reward.terms.penalty
    )
    return _with(reward, process=process, progress=progress, version=made.version, value=made.value)


def _with(
    reward: RewardGraded, *, process: int | None, progress: int | None, version: str | None, value: int | None
) -> RewardGraded:
    terms = reward.terms.model_copy(update={"process": process, "progress": progress})
    return reward.model_copy(update={"terms": terms, "shaping": version, "shaped": value})
