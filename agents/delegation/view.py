"""A manager's view of a loop, made of the loop's folds. Pure: the same log makes the same prompt."""

from __future__ import annotations

from collections.abc import Sequence

from eventlog.events import LoopConfig
from projections.delegation.budgets import LoopBudget
from projections.delegation.loop_state import Decided, LoopState
from projections.delegation.skills import SkillCatalogue

from .budget import budget_fraction_remaining
from .evaluation import appraise
from .gates import after_rejections
from .journal import journal_line
from .plan import plan_lines
from .prompts import ManagerView
from .rules import plan_steps
from .stall import DIRECTIVES
from .summary import SummaryEntry, rolling_summary


def manager_view(
    task: str, state: LoopState, budget: LoopBudget, skills: SkillCatalogue, config: LoopConfig
) -> ManagerView:
    """The view of a loop that its manager gets at its next decision."""
    fraction = budget_fraction_remaining(budget, config.budget)
    planning = config.planning
    return ManagerView(
        task=task,
        iteration=state.iteration + 1,
        summary=summary_of(state, config) if config.summary.enabled else "",
        catalogue={name: each.line for name, each in skills.skills.items()} if config.skills.enabled else {},
        fraction=fraction,
        synthesise=fraction < config.budget.synthesis_threshold,
        plan=plan_lines(plan_steps(state.plan)),
        hypotheses=[f"- [{each.status}] {each.hypothesis}: {each.cause}" for each in state.hypotheses],
        feedback=_feedback(state, config),
        directive=DIRECTIVES.get(state.strategy, "") if state.strategy is not None else "",  # type: ignore[call-overload]
        answered=state.answered,
        journal=_journal(state.decisions, planning.journal_entries) if planning.decision_journal else (),
    )


def summary_of(state: LoopState, config: LoopConfig) -> str:
    """The rolling summary of a loop, as ROLLING_SUMMARY.md holds it."""
    entries = [SummaryEntry(each.iteration, each.confidence, each.findings) for each in state.history]
    return rolling_summary(entries, config.history.full_results_window)


def _feedback(state: LoopState, config: LoopConfig) -> str:
    """Why the last decision was not followed; else what the last results are worth."""
    if state.feedback:
        repeats = after_rejections(state.rejections, config.completion.max_rejected_completions) == "repair"
        return f"{state.feedback}; delegate a repair of exactly this" if repeats else state.feedback
    waits = f"{state.deferred} delegations did not run, for there were too many or their subtask waits. "
    told = waits if state.deferred else ""
    if not state.history or state.history[-1].iteration != state.iteration or not config.summary.enabled:
        return told.strip()
    return f"{told}evaluation of the last iteration: {appraise(state.history[-1].confidence, config.evaluation)}"


def _journal(decisions: Sequence[Decided], most: int) -> list[str]:
    return [journal_line(each.iteration, each.kind, each.rationale, each.confidences) for each in decisions[-most:]]
