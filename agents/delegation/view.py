"""A manager's view of a loop, made of the loop's folds. Pure: the same log makes the same prompt."""

from __future__ import annotations

from collections.abc import Sequence

from eventlog.events import LoopConfig
from projections.delegation.budgets import LoopBudget
from projections.delegation.loop_state import Decided, LoopState
from projections.delegation.skills import SkillCatalogue

from .budget import budget_fraction_remaining
from .critique import defects_at
from .evaluation import appraise
from .gates import after_rejections
from .journal import journal_line
from .plan import plan_lines
from .prompts import ManagerView
from .rules import may_diagnose, plan_steps
from .stall import DIRECTIVES
from .summary import SummaryEntry, in_words, rolling_summary


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
        outputs=config.completion.required_outputs,
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
    return f"{waits if state.deferred else ''}{'; '.join(_evaluation(state, config))}".strip()


def _evaluation(state: LoopState, config: LoopConfig) -> list[str]:
    """What the last results are worth, and whether a diagnosis is suggested."""
    if not state.history or state.history[-1].iteration != state.iteration or not config.summary.enabled:
        return []
    last = state.history[-1]
    told = [f"evaluation of the last iteration: {appraise(last.confidence, config.evaluation)}"]
    most = config.critique.defect_category_diagnose_threshold
    recurring = defects_at(state.history, config.critique, most)
    if recurring:
        told.append(f"in {most} delegations or more results had these defects: {', '.join(recurring)}")
    if may_diagnose(state, config) and (recurring or last.least < config.planning.diagnose_below):
        weak = f" (the confidence of {last.weakest} is {in_words(last.least)})" if not recurring else ""
        told.append(f"a diagnosis is suggested before more of the same is delegated{weak}")
    return told


def _journal(decisions: Sequence[Decided], most: int) -> list[str]:
    return [journal_line(each.iteration, each.kind, each.rationale, each.confidences) for each in decisions[-most:]]
