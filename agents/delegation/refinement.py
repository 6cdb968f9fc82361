"""Refinement: what an ended loop leaves to improve, a loop that improves it, and when to stop. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from eventlog.events import LoopConfig, LoopLimits
from projections.delegation.budgets import Amounts, LoopBudget
from projections.delegation.loop_state import LoopState

from .budget import MICRO, budget_fraction_remaining, estimate_tokens
from .results import plain_line
from .summary import in_words

EARLIER: Final = "\n\n## Earlier Result\n"
MOST_REJECTIONS: Final = 3
LONGEST_RESULT: Final = 8_000
LEAST_CHANGE: Final = 10_000
"""A loss that changes less than this (millionths) did not change."""

IN_A_ROW: Final = 2
LEAST_CALLS: Final = 4
LEAST_SECONDS: Final = 60
LEAST_WORK: Final = 2
"""Workers and tool calls: a loop whose last one is spent ends before it may complete."""

LEAST_LOOPS: Final = 2
"""A loop needs one decision to delegate and one to complete."""

STATUS_LOSS: Final = {"complete": 0, "partial_complete": MICRO // 2}


def what_to_improve(state: LoopState, config: LoopConfig) -> tuple[str, ...]:
    """What is wrong with an ended loop, a line each: its end, its last rejections, open subtasks, weak results."""
    found = [] if state.status == "complete" else [f"it ended as {state.status}: {state.reason}"]
    found += [f"rejected: {why}" for why in state.rejections[-MOST_REJECTIONS:]]
    found += [f"not done: {each.subtask}: {each.description}" for each in state.plan if each.status != "completed"]
    least = config.critique.min_score_to_complete
    for name, each in sorted(state.latest.items()):
        is_weak = each.critique is not None and each.critique < least
        if is_weak or each.confidence < config.evaluation.accept:
            found.append(f"{name}: confidence {in_words(each.confidence)}: {each.finding}")
    return tuple(plain_line(line) for line in found)


def refined_task(task: str, result: str, lines: Sequence[str]) -> str:
    """The task of a loop that improves a result: the first task, the result, and what is to be improved."""
    first = task.partition(EARLIER)[0]
    improve = "\n".join(f"- {line}" for line in lines)
    return f"{first}{EARLIER}{result[:LONGEST_RESULT]}\n\n## What to Improve\n{improve}"


def halve_budget(config: LoopConfig, spent: Amounts, task: str) -> LoopLimits:
    """The limits of a refinement with this task: half of what the first loop spent, within its limits.

    It is enough for one delegation and its completion. A call reserves its whole answer before it is made.
    """
    limits = config.budget
    least = LEAST_CALLS * estimate_tokens(len(task), config.max_tokens)
    return limits.model_copy(
        update={
            "max_loops": min(limits.max_loops, max(LEAST_LOOPS, spent.loops // 2)),
            "max_total_workers": min(limits.max_total_workers, max(LEAST_WORK, spent.workers // 2)),
            "max_total_tokens": min(limits.max_total_tokens, max(least, spent.tokens // 2)),
            "max_tool_calls": min(limits.max_tool_calls, max(LEAST_WORK, spent.tool_calls // 2)),
            "max_wall_time": min(limits.max_wall_time, max(LEAST_SECONDS, spent.wall // 2 // MICRO)),
        }
    )


def loss_of(state: LoopState, budget: LoopBudget) -> int:
    """How far an ended loop is from a good result, in millionths: what refinements are compared by.

    Confidence (by the oracle, where there is one) counts .4, the mean critique of the last delegation .3, rejected
    completions .15, the status .1, and the share of the budget that was spent .05. What was not judged counts half.
    """
    config = state.loop_config()
    critiques = state.history[-1].critiques if state.history else ()
    judged = sum(critiques) // len(critiques) if critiques else MICRO // 2
    rejected = min(MICRO, state.rejected * MICRO // config.completion.max_rejected_completions)
    parts = (
        (40, MICRO - state.confidence),
        (30, MICRO - judged),
        (15, rejected),
        (10, STATUS_LOSS.get(state.status, MICRO)),
        (5, MICRO - budget_fraction_remaining(budget, config.budget)),
    )
    return sum(weight * part for weight, part in parts) // 100


def has_no_more_time(first: Amounts, rounds: Sequence[Amounts]) -> bool:
    """True if the rounds of a refinement took twice the time of the first loop, and at least two rounds' worth."""
    return sum(each.wall for each in rounds) >= 2 * max(first.wall, LEAST_SECONDS * MICRO)


def why_refined_enough(losses: Sequence[int]) -> str | None:
    """Why no further round is played after these losses, the first loop's first; None if one may be."""
    changes = [after - before for before, after in pairwise(losses)][-IN_A_ROW:]
    if len(changes) < IN_A_ROW:
        return None
    if all(abs(change) < LEAST_CHANGE for change in changes):
        return "two rounds in a row changed nothing"
    return "two rounds in a row were worse" if all(change > 0 for change in changes) else None
