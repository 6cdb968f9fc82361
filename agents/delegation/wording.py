"""The wording of all prompts of a loop as a digest, so that a replay can tell another wording from another log. Pure.

Every prompt is made of an example that has all its sections, and digested: whoever changes a sentence changes the
digest and need not think of a version.
"""

from __future__ import annotations

import hashlib
from functools import cache
from typing import Final

from msgspec.structs import replace

from eventlog.events import CompletionConfig, LoopConfig
from projections.delegation.budgets import Amounts, LoopBudget
from projections.delegation.loop_state import Decided, Delegated, HypothesisState, LoopState, SubtaskState
from projections.delegation.skills import SkillCatalogue, SkillEntry

from .critic import CRITIC, clarify_critique, critic_prompt
from .critique import critique, prescription
from .diagnosis import tester_of
from .escalation import ASKED, clarify_answer, escalation_prompt
from .prompts import MANAGER, WORKER, WorkOrder, clarification, manager_prompt, repair_prompt, worker_prompt
from .refinement import refined_task
from .stall import DIRECTIVES
from .tool_policy import ToolSpec
from .view import manager_view

_NONE: Final = "0" * 64
_TOOL: Final = ToolSpec(fqn="dynamic.sum", code="x", parameters={}, description="adds")


@cache
def prompt_wording() -> str:
    """SHA-256 of the wording of today's prompts."""
    plain = {"confidence": 0.2, "error": "broken", "findings": "TODO"}
    order = WorkOrder("a", "work", ("# Skill: Sums",), {"dynamic.sum": _TOOL}, {"b": 1}, may_create_tools=False, seed=0)
    texts = [
        MANAGER,
        WORKER,
        ASKED,
        CRITIC,
        *(_manager_prompt(state) for state in _states()),
        clarification("no object"),
        worker_prompt(order),
        repair_prompt(_TOOL, "it fails", "mend it"),
        prescription(critique(plain, ("table",), 0)),
        critic_prompt("work", ("table",), plain),
        clarify_critique(),
        escalation_prompt("task", "part", "summary", "what now?"),
        clarify_answer(),
        tester_of("h", "a typo", "read it").instructions,
        refined_task("task", "{}", ("weak",)),
    ]
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()


def _manager_prompt(state: LoopState) -> str:
    config = LoopConfig(completion=CompletionConfig(required_outputs=("report.md",)))
    budget = LoopBudget(spent=Amounts(tokens=config.budget.max_total_tokens * 9 // 10))
    skills = SkillCatalogue(skills={"sums": SkillEntry(version=1, line="Adds.", content=_NONE)})
    return manager_prompt(manager_view("task", state, budget, skills, config))


def _states() -> list[LoopState]:
    """States of an example that have every section, one for each directive and each kind of feedback."""
    defects = ("missing_data",)
    history = tuple(
        Delegated(iteration=n, confidence=100_000 * n, findings=f"a: {n}", least=n, weakest="a", defects=defects)
        for n in range(1, 7)
    )
    decisions = tuple(
        Decided(iteration=n, kind=kind, rationale="why", confidences=(n * 100_000,))
        for n, kind in ((1, "plan"), (3, "delegate"), (6, "delegate"), (9, "delegate"))
    )
    whole = LoopState(
        iteration=6,
        history=history,
        decisions=decisions,
        deferred=2,
        plan=(
            SubtaskState(subtask="one", description="1", status="completed"),
            SubtaskState(subtask="two", description="2", dependencies=("one", "three")),
            SubtaskState(subtask="three", description="3"),
        ),
        hypotheses=(HypothesisState(hypothesis="h", cause="a typo"),),
        answered="leave it",
    )
    directed = [replace(whole, strategy=each) for each in DIRECTIVES]
    weak = replace(whole, history=history[:1], iteration=1)
    rejected = replace(whole, feedback="plan: open", rejections=("plan: open",) * 2)
    return [LoopState(), whole, weak, rejected, *directed]
