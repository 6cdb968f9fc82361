"""The delegation loop as an executor: a task of a suite is delegated, and workers act on the run's instance.

Manager and workers are the weights of the run's artifact. The loop asks no oracle: the run is graded at its end like
any other. A run that is played again has a fresh instance, so it opens another loop and the one before is aborted.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from eventlog.errors import FlywheelError
from eventlog.events import (
    CritiqueConfig,
    EvaluationConfig,
    LoopConfig,
    LoopLimits,
    OfferedSkill,
    RunStatus,
    Step,
    ToolsConfig,
)
from projections.delegation.loop_state import LOOP_MARK, LOOP_STEM, LoopState

from ...delegation.prompts import WorkOrder
from ...delegation.results import plain_line
from ...delegation.skills import LONGEST_LINE, skill_of
from ...envs.contract import Instance
from ...learning.advice import MOST_SKILLS, Audience
from ...learning.guidance import guidance_paragraph
from ...models.model import Model
from ..actions import INTENTS
from ..endpoint import EndpointPolicies
from ..executor import Assignment, ExecutedStep, Execution, Executor, Watch, no_verification
from ..local import LocalPolicies
from ..plan import PlanExecutor
from ..policy import PolicyExecutor
from .errors import WorkerFailed
from .journal import LoopJournal
from .loop import DelegationLoop, LoopMeans
from .opening import Opening, open_loop
from .sandbox import NoSandbox
from .settling import end_event
from .tape import DeskModel, RunTape, TapedModel
from .workers import WorkDesk

NAME: Final = "delegation"
PLAN_NAME: Final = "delegation-plan"
_SHOWN: Final = 2_000

CONFIG: Final = LoopConfig(
    budget=LoopLimits(max_loops=20, max_depth=0, max_parallel_workers=1),
    tools=ToolsConfig(enabled=False),
    critique=CritiqueConfig(mode="rules", max_repair_attempts=0),
    evaluation=EvaluationConfig(gates=False),
    max_tokens=1_024,
)
"""Of a run of a suite: its workers take turns on one instance and call no tools but the actions on it.

Nothing is repaired behind the manager's back, because what was done on an instance stays done. The oracle judges the
run after it, so how many steps went well gates nothing.
"""

JournalOf = Callable[[str], LoopJournal]
"""Returns the journal of a loop by its name."""


@dataclass(frozen=True, slots=True)
class DelegationExecutor:
    """Executor of a manager with workers. `policy` serves the weights of the manager, and of workers that are policies.

    With `walks` workers walk the task's plan instead. A step counts as a tool call of the loop's budget.
    """

    policy: PolicyExecutor | LocalPolicies | EndpointPolicies
    journal_of: JournalOf
    walks: bool = False
    config: LoopConfig = field(default=CONFIG)

    @property
    def name(self) -> str:
        """See Executor."""
        return PLAN_NAME if self.walks else NAME

    @property
    def model(self) -> Model:
        """The model whose name is recorded with a sweep."""
        return self.policy.model

    @property
    def offers_logprobs(self) -> bool:
        """See Executor."""
        return self.policy.offers_logprobs

    @property
    def audience(self) -> Audience:
        """See Advised. The manager is offered skills too; workers that walk a plan could not use them."""
        return replace(self.policy.audience, skills=0 if self.walks else MOST_SKILLS)

    @property
    def walks_pages(self) -> bool:
        """See Advised."""
        return False

    def policy_for(self, weights: str) -> PolicyExecutor:
        """The policy of these weights, loaded. Raises NotServed, ModelFailure."""
        return self.policy.policy_for(weights)

    def execute(self, assignment: Assignment, instance: Instance, watch: Watch = no_verification) -> Execution:
        """See Executor. A loop that ends in an exception is aborted, because its instance ends with it."""
        policy, tape = self.policy_for(assignment.weights), RunTape(watch)
        journal = _next_journal(self.journal_of, assignment.run)
        acting: Executor = PlanExecutor() if self.walks else policy
        worker = InstanceWorker(acting, assignment, instance, tape)
        manager = TapedModel(policy.model, tape)
        opening = Opening(
            task=_task(assignment),
            manager=manager.name[:200],
            worker=worker.name,
            config=self._config_for(assignment, policy),
            seed=assignment.seed,
            graded=True,
            skills=_offered_skills(journal, assignment.skills),
        )
        open_loop(journal, opening)
        loop = DelegationLoop(journal, LoopMeans(manager, worker, NoSandbox()))
        try:
            ended = loop.run()
        except BaseException as failure:
            _abort(journal, type(failure).__name__)
            raise
        if ended.status == "complete":
            tape.take(ExecutedStep(len(tape.taken), _finish(journal, ended), "ok", None, None))
        return tape.execution(_status(ended))

    def _config_for(self, assignment: Assignment, policy: PolicyExecutor) -> LoopConfig:
        """The configuration, with the run's steps as tool calls, its temperature, and answers of a fitting length."""
        config = self.config
        steps = min(config.budget.max_tool_calls, assignment.max_steps)
        return config.model_copy(
            update={
                "budget": config.budget.model_copy(update={"max_tool_calls": steps}),
                "temperature": assignment.temperature_micro,
                "max_tokens": max(64, min(config.max_tokens, 2 * policy.max_tokens)),
            }
        )


@dataclass(frozen=True, slots=True)
class InstanceWorker:
    """A worker that is an executor acting on an instance. What it did is its result, and derives its confidence."""

    executor: Executor
    assignment: Assignment
    instance: Instance
    tape: RunTape

    @property
    def name(self) -> str:
        """See Worker."""
        return f"executor:{self.executor.name}"

    def work(self, order: WorkOrder, desk: WorkDesk) -> dict[str, Any]:
        """See Worker.work. Raises EnvironmentFailure too, which no worker causes."""
        left = self.assignment.max_steps - len(self.tape.taken)
        if left <= 0:
            raise WorkerFailed(worker=order.worker, actual="the run has no steps left")
        if isinstance(self.executor, PlanExecutor) and not self.assignment.plan:
            raise WorkerFailed(worker=order.worker, actual="the task has no plan to walk")
        ended = self._metered_executor(desk).execute(
            self._assignment_of(order, left), self.instance, self._watch_for(desk)
        )
        last = next((each for each in reversed(ended.taken) if each.text is not None), None)
        answer = next((each.step.value for each in reversed(ended.taken) if each.step.type == "finish"), None)
        steps = [f"{each.step.action}: {each.outcome}" for each in ended.taken][-50:]
        shown = "" if last is None or last.text is None else last.text[:_SHOWN]
        told = answer or f"{ended.status} after {len(ended.taken)} steps, the last: {steps[-1] if steps else 'none'}"
        return {"findings": told, "status": ended.status, "steps": steps, "page": shown.splitlines()}

    def _metered_executor(self, desk: WorkDesk) -> Executor:
        if isinstance(self.executor, PolicyExecutor):
            return replace(self.executor, model=DeskModel(self.executor.model, self.tape, desk))
        return self.executor

    def _assignment_of(self, order: WorkOrder, left: int) -> Assignment:
        """The assignment of an order: its instructions with its skills, within the steps that are left."""
        told = "\n\n".join([order.instructions, *order.skills])
        return replace(self.assignment, instruction=told, max_steps=left, seed=order.seed % 2**31)

    def _watch_for(self, desk: WorkDesk) -> Watch:
        def watch(step: ExecutedStep) -> None:
            self.tape.take(step)
            desk.count_step(is_failed=step.is_failed)

        return watch


def _next_journal(journal_of: JournalOf, run: str) -> LoopJournal:
    """The journal of a loop of a run that has none yet. A loop of it that is open is aborted."""
    for number in itertools.count(1):
        journal = journal_of(f"{run[:LOOP_STEM]}{LOOP_MARK}{'' if number == 1 else number}")
        if not journal.state.status:
            return journal
        if journal.state.is_open:
            _abort(journal, "its run began anew")
    raise AssertionError("a count has no end")


def run_of_loop(loop: str) -> str | None:
    """The run of a suite that a loop or its sub-manager belongs to; None if a person started it."""
    run, found, _ = loop.partition(LOOP_MARK)
    return run if found else None


def _abort(journal: LoopJournal, why: str) -> None:
    try:
        if journal.state.is_open:
            journal.append(end_event(journal, f"aborted: {why}"))
    except FlywheelError:
        return  # the log does not answer, which the caller is about to be told; the next attempt aborts this loop


def _task(assignment: Assignment) -> str:
    lines = "".join(f"\n- {line}" for line in assignment.advice)
    told = f"\n\nWhat helped before in tasks like it:{lines}" if lines else ""
    told += f"\n\n{guidance_paragraph(assignment.guidance).rstrip()}" if assignment.guidance else ""
    return f"{assignment.instruction}{told}\n\nWorkers act on the site; what they are told is all that they know."


def _offered_skills(journal: LoopJournal, texts: Sequence[str]) -> tuple[OfferedSkill, ...]:
    """The skills of memory as the loop's catalogue begins with them; of one name the first."""
    found: dict[str, OfferedSkill] = {}
    for skill in map(skill_of, texts):
        line, content = plain_line(skill.line, LONGEST_LINE), journal.put_text(skill.text)
        found.setdefault(skill.name, OfferedSkill(skill=skill.name, line=line, content=content))
    return tuple(found.values())


def _finish(journal: LoopJournal, ended: LoopState) -> Step:
    found = journal.record_at(str(ended.result)).get("result") or {}
    answer = found.get("answer") if isinstance(found, dict) else None
    return Step(type="finish", intent=INTENTS["finish"], value=str(answer or "")[:1_000])


def _status(ended: LoopState) -> RunStatus:
    if ended.status == "complete":
        return "completed"
    return "out_of_budget" if ended.reason.startswith("budget_exhausted") else "halted"
