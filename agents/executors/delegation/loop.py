"""The delegation loop: decide, delegate, judge, until a gate, the budget, a stall or convergence ends it.

Every step is read from the journal, so a loop that was killed goes on where it was. A model that does not answer pauses
the loop: its error propagates, and the loop stays open.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from eventlog.events import (
    AnyEvent,
    CompletionRejected,
    IterationDecided,
    LoopConfig,
)
from projections.delegation.budgets import Amounts
from projections.delegation.loop_state import LoopState

from ...delegation.decisions import (
    CompleteDecision,
    DelegateDecision,
    DiagnoseDecision,
    FailDecision,
    ManagerDecision,
    PlanDecision,
    read_decision,
)
from ...delegation.envelopes import Envelope, fan_out
from ...delegation.files import merge_files
from ...delegation.gates import ProposedResult, after_rejections, reject
from ...delegation.prompts import MANAGER, manager_prompt
from ...delegation.results import plain_line
from ...delegation.rules import (
    diagnose_refusal,
    dispatch,
    envelopes_of,
    fails_gracefully,
    is_to_be_judged,
    offered_decisions,
    plan_refusal,
    plan_steps,
)
from ...delegation.view import manager_view
from ...models.model import ChatMessage, Model
from .clock import charge_meanwhile
from .fanout import Fanout, SubmanagerTree, child_name
from .forge import Forge
from .journal import LoopJournal
from .keeping import keep_skills
from .manager_turn import ManagerTurn, decision_event
from .sandbox import ToolSandbox
from .settling import end_event, judge_iteration, reason_converged, reason_to_end, worker_results
from .truth import NO_TRUTH, GroundTruth
from .workers import Worker

Progress = Callable[[LoopJournal], None]
"""Called after each step of a loop, for a live view."""


def no_progress(_journal: LoopJournal) -> None:
    """Show nothing."""


@dataclass(frozen=True)
class LoopMeans:
    """Means of a loop: the models of manager and workers, the sandbox of its tools, ground truth.

    `repairer` repairs tools, `critic` judges results; without one nothing is repaired, and rules judge.
    """

    manager: Model
    worker: Worker
    sandbox: ToolSandbox
    truth: GroundTruth = NO_TRUTH
    repairer: Model | None = None
    critic: Model | None = None


@dataclass
class DelegationLoop:
    """One open loop. `tree` counts the sub-managers of the whole run."""

    journal: LoopJournal
    means: LoopMeans
    progress: Progress = no_progress
    tree: SubmanagerTree = field(default_factory=SubmanagerTree)
    config: LoopConfig = field(init=False)

    def __post_init__(self) -> None:
        self.config = self.journal.state.loop_config()
        self.forge = Forge(self.journal, self.means.sandbox, self.config.tools)
        self._task = self.journal.text_at(self.journal.state.task)

    def run(self) -> LoopState:
        """Go on until the loop ends or waits for an answer. Raises ModelFailure, LoopElsewhere."""
        with charge_meanwhile(self.journal):
            self._charge_lost()
            while self.journal.state.status == "open":
                self._step()
                self.progress(self.journal)
        return self.journal.state

    def _step(self) -> None:
        state = self.journal.state
        if state.running:
            fanout = Fanout(self.journal, self.means, self.forge, self.config, self.tree, self._run_child)
            fanout.run(self._envelopes())
        if self.journal.state.returned and not self.journal.state.running:
            keep_skills(self.journal, self._envelopes(), self.config)
        if is_to_be_judged(self.journal.state):
            judge_iteration(self.journal, self.config)
            return
        if state.running:
            return
        ending = reason_to_end(self.journal, self.config)
        if ending is None:
            self._decide()
        else:
            self.journal.append(end_event(self.journal, ending))

    def _charge_lost(self) -> None:
        """Charge what attempts reserved that were killed. A sub-manager that was open goes on instead."""
        for name, amounts in sorted(self.journal.budget.pending.items()):
            if child_name(self.journal.state, name) in self.journal.state.children:
                continue
            lost = Amounts(tokens=amounts.tokens, tool_calls=amounts.tool_calls)
            self.journal.append(self.journal.settlement(name, lost, is_lost=True))

    def _envelopes(self) -> tuple[Envelope, ...]:
        """The envelopes of the decision whose workers run, read again from the manager's answer."""
        state = self.journal.state
        decision = read_decision(self.journal.text_at(state.answer), offered_decisions(self.config))
        return envelopes_of(decision, plan_steps(state.plan))

    def _decide(self) -> None:
        state, journal = self.journal.state, self.journal
        iteration = state.iteration + 1
        prompt = manager_prompt(manager_view(self._task, state, journal.budget, journal.skills, self.config))
        messages = [ChatMessage("system", (MANAGER,)), ChatMessage("user", (prompt,))]
        asked = ManagerTurn(journal, self.means.manager, self.config, iteration, messages)
        decision, why = asked.decide()
        if asked.over is not None:
            journal.append(end_event(journal, f"budget_exhausted: {asked.over}"))
            return
        event, following = self._follow(decision, why, iteration)
        decided = event.model_copy(
            update={
                "prompt": journal.put_text(prompt),
                "answer": journal.put_text(asked.answer),
                "clarified": asked.calls > 1,
            }
        )
        settled = journal.settlement(asked.reservation, Amounts(loops=1, tokens=asked.tokens))
        journal.append(settled, decided, *following)

    def _follow(
        self, decision: ManagerDecision | None, why: str, iteration: int
    ) -> tuple[IterationDecided, list[AnyEvent]]:
        """The event of a decision, and those of what follows from it at once."""
        state, config = self.journal.state, self.config
        event = decision_event(self.journal.loop, iteration, decision, why)
        match decision:
            case DelegateDecision():
                converged = reason_converged(self.journal, config)
                if converged is not None:
                    return event.model_copy(update={"refusal": converged}), [end_event(self.journal, converged)]
                runs = dispatch(decision, state, config)
                names = tuple(each.worker_id for each in runs.runs)
                facts: dict[str, object] = {"workers": names, "deferred": runs.deferred, "signature": runs.signature}
                return event.model_copy(update={**facts, "refusal": plain_line(runs.refusal)}), []
            case PlanDecision():
                refusal = plan_refusal(decision, state, config)
                return event.model_copy(update={"refusal": plain_line(refusal)}), []
            case DiagnoseDecision():
                refusal = diagnose_refusal(decision, state, config)
                testers = fan_out(
                    () if refusal else envelopes_of(decision, ()), config.budget.max_workers_per_iteration
                ).runs
                names = tuple(each.worker_id for each in testers)
                return event.model_copy(update={"refusal": plain_line(refusal), "workers": names}), []
            case CompleteDecision():
                return event, self._complete(decision, iteration)
            case FailDecision():
                reason = "manager_fail_graceful" if fails_gracefully(state) else "fail"
                return event, [end_event(self.journal, f"{reason}: {decision.reasoning}", decision.partial_result)]
            case _:
                return event, []

    def _complete(self, decision: CompleteDecision, iteration: int) -> list[AnyEvent]:
        state, result = self.journal.state, decision.final_result
        verdict = self.means.truth.verdict(result)
        critiques, judged = (state.history[-1].critiques, state.history[-1].judged) if state.history else ((), None)
        files = merge_files([*worker_results(self.journal), result])
        proposed = ProposedResult(result, plan_steps(state.plan), critiques, verdict, judged, files)
        rejection = reject(proposed, self.config)
        if rejection is None:
            last = state.history[-1].confidence if state.history else 0
            stated = decision.confidence if decision.confidence is not None else last
            return [end_event(self.journal, "complete", result, 1_000_000 if verdict else stated)]
        most = self.config.completion.max_rejected_completions
        why = plain_line(rejection.why)
        following = after_rejections((*state.rejections, f"{rejection.gate}: {why}"), most)
        rejected = CompletionRejected(loop=self.journal.loop, iteration=iteration, gate=rejection.gate, why=why)
        if rejection.ends:
            return [rejected, end_event(self.journal, f"eval_fail: {why}", result)]
        if following == "end":
            return [rejected, end_event(self.journal, f"max_rejected_completions: {why}", result)]
        return [rejected]

    def _run_child(self, journal: LoopJournal) -> LoopState:
        return DelegationLoop(journal, self.means, self.progress, self.tree).run()
