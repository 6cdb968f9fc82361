"""The workers of one decision, run concurrently within limits; a worker may be promoted to a sub-manager."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from msgspec.structs import replace

from eventlog.chain import digest
from eventlog.events import LoopConfig, LoopLimits, OfferedSkill, OfferedTool
from projections.delegation.budgets import Amounts, LoopBudget
from projections.delegation.loop_state import LoopState

from ...delegation import budget
from ...delegation.envelopes import Envelope
from ...delegation.evaluation import Confidence
from ...delegation.plan import needs_submanager
from ...delegation.rules import plan_steps
from ...models.errors import ModelFailure
from .desk import WorkerDesk
from .errors import TruthFailed
from .forge import Forge
from .journal import LoopJournal
from .opening import Opening, open_loop
from .parent import ParentAnswer
from .turn import WorkerTurn, record_turn, take_turn

if TYPE_CHECKING:
    from .loop import LoopMeans

ChildRunner = Callable[[LoopJournal], LoopState]


def child_name(state: LoopState, reservation: str) -> str:
    """Name of the sub-manager's loop that a reservation is for, if it is for one."""
    return f"{state.root[:100]}.{digest([state.loop, reservation]).hex()[:12]}"


@dataclass
class SubmanagerTree:
    """The sub-managers of a whole run: how many were ever opened, how many run now. Thread-safe."""

    total: int = 0
    concurrent: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def enter(self, depth: int, limits: LoopLimits, *, is_new: bool) -> str | None:
        """Count a sub-manager in. Returns why it may not run, or None. One that is resumed is not new."""
        with self.lock:
            counted = budget.TreeCounts(self.total, self.concurrent)
            refused = budget.may_promote(counted, depth, limits) if is_new else None
            if refused is None:
                self.total += is_new
                self.concurrent += 1
            return refused

    def leave(self, *, was_opened: bool = True) -> None:
        """Count a sub-manager out. One that was not opened counts for nothing."""
        with self.lock:
            self.concurrent -= 1
            self.total -= not was_opened


@dataclass
class Fanout:
    """Runs the workers of a decision that have not returned."""

    journal: LoopJournal
    means: LoopMeans
    forge: Forge
    config: LoopConfig
    tree: SubmanagerTree
    run_child: ChildRunner

    def run(self, delegated: Sequence[Envelope]) -> None:
        """Run the workers and record each result. Raises ModelFailure, once all others have ended."""
        waiting = set(self.journal.state.running)
        envelopes = [each for each in delegated if each.worker_id in waiting]
        if not envelopes:
            return
        most = min(self.config.budget.max_parallel_workers, len(envelopes))
        with ThreadPoolExecutor(most, thread_name_prefix="worker") as pool:
            futures = [pool.submit(self._run_one, each, len(envelopes)) for each in envelopes]
        failures = [failure for future in futures if (failure := future.exception()) is not None]
        if failures:
            raise failures[0]

    def _run_one(self, envelope: Envelope, siblings: int) -> None:
        desk = self._desk(envelope)
        note = ""
        if self._wants_submanager(envelope):
            note = self._promote(envelope, desk, siblings)
            if not note:
                return
        over = desk.begin()
        if over is not None:
            turn = WorkerTurn({"error": f"the budget is spent: {over.why}"}, Confidence(0, "error", None))
        else:
            turn = self._take_turn(envelope, desk)
        if note:
            turn = dataclasses.replace(turn, note=note)
        with self.journal.lock:
            spent = desk.amounts_spent if over is None else Amounts()
            record_turn(self.journal, envelope, turn, desk, self.journal.settlement(desk.reservation, spent))

    def _take_turn(self, envelope: Envelope, desk: WorkerDesk) -> WorkerTurn:
        """A worker's turn. Raises ModelFailure, TruthFailed, after charging what was spent and releasing the rest.

        The worker itself is not charged: it did not return, and runs again when the loop is resumed.
        """
        try:
            means = self.means
            return take_turn(means.worker, envelope, desk, means.truth, self.config, means.critic)
        except (ModelFailure, TruthFailed):
            spent = replace(desk.amounts_spent, workers=0)
            with self.journal.lock:
                self.journal.append(self.journal.settlement(desk.reservation, spent))
            raise

    def _desk(self, envelope: Envelope) -> WorkerDesk:
        return WorkerDesk(
            journal=self.journal,
            forge=self.forge,
            config=self.config,
            worker=envelope.worker_id,
            iteration=self.journal.state.iteration,
            allowed=frozenset(envelope.tools_allowed) or None,
            may_create=envelope.may_create_tools,
            repairer=self.means.repairer,
        )

    def _wants_submanager(self, envelope: Envelope) -> bool:
        """True if a manager asks for one, if a subtask was tried too often, or if one was open before a kill."""
        state = self.journal.state
        if child_name(state, f"{state.iteration}/{envelope.worker_id}") in state.children:
            return True
        stuck = {each.subtask.id for each in plan_steps(state.plan) if needs_submanager(each)}
        return envelope.as_submanager or (bool(envelope.subtask_id) and envelope.subtask_id in stuck)

    def _promote(self, envelope: Envelope, desk: WorkerDesk, siblings: int) -> str:
        """Run a sub-manager in place of a worker, and answer it. Returns why it may not run; empty if it ran."""
        state = self.journal.state
        name = child_name(state, desk.reservation)
        is_new = name not in state.children
        refused = self.tree.enter(state.depth, self.config.budget, is_new=is_new)
        if refused is not None:
            return refused
        child = None
        try:
            child = self._open_child(envelope, desk, name, siblings, is_new=is_new)
            if child is None:
                return "the rest of the budget is too small for a sub-manager"
            ended = self.run_child(child)
            while ended.status == "waiting":
                ParentAnswer(self.journal, self.means.manager, self.config, desk.reservation).give(child)
                ended = self.run_child(child)
            self._record_child(envelope, desk, child, ended)
            return ""
        finally:
            self.tree.leave(was_opened=child is not None or name in self.journal.state.children)

    def _open_child(
        self, envelope: Envelope, desk: WorkerDesk, name: str, siblings: int, *, is_new: bool
    ) -> LoopJournal | None:
        journal = self.journal
        if is_new:
            with journal.lock:
                asked = envelope.submanager_budget_fraction
                share = budget.child_fraction(self.config.budget, siblings, asked)
                limits = budget.allocate_child(journal.budget, self.config.budget, share)
                if limits is None:
                    return None
                part = budget.limits_of(limits)
                amounts = Amounts(
                    loops=part.loops, workers=part.workers + 1, tokens=part.tokens, tool_calls=part.tool_calls
                )
                if journal.reserve(self.config.budget, desk.reservation, amounts, child=name) is not None:
                    return None
        else:
            limits = _limits(self.config.budget, journal.budget, journal.budget.pending[desk.reservation])
        child = LoopJournal(journal.store, journal.blobs, name, journal.stopwatch)
        if not child.state.status:
            open_loop(child, self._child_opening(envelope, limits))
        return child

    def _child_opening(self, envelope: Envelope, limits: LoopLimits) -> Opening:
        state, journal = self.journal.state, self.journal
        skills = tuple(
            OfferedSkill(skill=name, line=each.line, content=each.content)
            for name, each in sorted(journal.skills.skills.items())
        )
        tools = tuple(
            OfferedTool(tool=name, code_hash=each.code_hash, content=each.content)
            for name, each in sorted(journal.tools.tools.items())
        )
        return Opening(
            task=envelope.instructions,
            manager=state.manager,
            worker=state.worker,
            config=_child_config(self.config, limits),
            seed=state.seed,
            sandbox=self.means.sandbox.kind,
            graded=state.graded,
            grader=state.grader,
            validator=state.validator,
            commands_known=state.commands_known,
            parent=state.loop,
            root=state.root,
            depth=state.depth + 1,
            skills=skills,
            tools=tools,
        )

    def _record_child(self, envelope: Envelope, desk: WorkerDesk, child: LoopJournal, ended: LoopState) -> None:
        """Record what a sub-manager came to: its own confidence, its skills, and what it spent."""
        content = child.record_at(ended.result) if ended.result else {}
        result = {
            "findings": str(content.get("result") or ended.reason)[:4_000],
            "result": content.get("result") or {},
            "confidence": ended.confidence / 1_000_000,
        }
        if ended.status == "failed":
            result["error"] = ended.reason
        truth = self.means.truth.confidence(envelope, result)
        confidence = Confidence(ended.confidence, "reported", ended.confidence)
        if truth is not None:
            confidence = Confidence(truth, "verified", ended.confidence)
        written = [each for each in child.skills.skills.values() if each.worker]
        result["skills_created"] = [child.text_at(each.content) for each in written]
        spent = child.budget.spent
        actual = Amounts(loops=spent.loops, workers=spent.workers + 1, tokens=spent.tokens, tool_calls=spent.tool_calls)
        turn = WorkerTurn(result, confidence, child=child.loop)
        with self.journal.lock:
            record_turn(self.journal, envelope, turn, desk, self.journal.settlement(desk.reservation, actual))


def _child_config(config: LoopConfig, limits: LoopLimits) -> LoopConfig:
    """The configuration of a child within its limits. The files of the whole result are not asked of a part of it."""
    completion = config.completion.model_copy(update={"required_outputs": ()})
    return config.model_copy(update={"budget": limits, "completion": completion})


def _limits(limits: LoopLimits, spent: LoopBudget, pending: Amounts) -> LoopLimits:
    """The limits of a child whose reservation was recorded but which was not opened before a kill.

    One of the reserved workers is the child itself. Its wall time is what is left to its parent.
    """
    return limits.model_copy(
        update={
            "max_loops": pending.loops,
            "max_total_workers": pending.workers - 1,
            "max_total_tokens": pending.tokens,
            "max_tool_calls": pending.tool_calls,
            "max_wall_time": budget.remaining_amounts(spent, limits).wall // budget.MICRO,
        }
    )
