"""A manager's turn: one call, and a second after a clarification; and the event of what it decided."""

from __future__ import annotations

from dataclasses import dataclass

from eventlog.chain import digest
from eventlog.events import IterationDecided, LoopConfig, PlannedSubtask, Sampling, StatedHypothesis
from projections.delegation.budgets import Amounts

from ...delegation.budget import estimate_tokens
from ...delegation.decisions import (
    CompleteDecision,
    DelegateDecision,
    DiagnoseDecision,
    ManagerDecision,
    NotADecision,
    PlanDecision,
    decision_schema,
    read_decision,
)
from ...delegation.prompts import clarification
from ...delegation.results import plain_line
from ...delegation.rules import offered_decisions
from ...models.errors import ModelFailure
from ...models.model import ChatMessage, Model
from .journal import LoopJournal
from .workers import one_request


@dataclass
class ManagerTurn:
    """A manager's turn: at most two calls, the second after a clarification."""

    journal: LoopJournal
    model: Model
    config: LoopConfig
    iteration: int
    messages: list[ChatMessage]
    answer: str = ""
    tokens: int = 0
    calls: int = 0
    over: str | None = None

    @property
    def reservation(self) -> str:
        """Name of the manager's reservation."""
        return f"{self.iteration}/manager"

    def decide(self) -> tuple[ManagerDecision | None, str]:
        """The decision, or None and why there is none. Raises ModelFailure, after releasing the reservation."""
        why = ""
        try:
            for _ in range(2):
                self._ask()
                if self.over is not None:
                    return None, self.over
                try:
                    return read_decision(self.answer, offered_decisions(self.config)), ""
                except NotADecision as problem:
                    why = str(problem)
                    said = ChatMessage("assistant", (self.answer[:2_000] or "(nothing)",))
                    self.messages += [said, ChatMessage("user", (clarification(why),))]
        except ModelFailure:
            self.journal.append(self.journal.settlement(self.reservation, Amounts(tokens=self.tokens)))
            raise
        return None, why

    def _ask(self) -> None:
        model, config, journal = self.model, self.config, self.journal
        chars = sum(len(message.text) for message in self.messages)
        wanted = Amounts(loops=1, tokens=self.tokens + estimate_tokens(chars, config.max_tokens))
        refused = journal.reserve(config.budget, self.reservation, wanted)
        if refused is not None:
            self.over = None if self.calls else refused.why
            return
        sampling = Sampling(
            temperature_micro=config.temperature,
            max_tokens=config.max_tokens,
            seed=self._seed() if model.offers.seed else None,
        )
        schema = decision_schema(offered_decisions(config)) if model.offers.schema else None
        completion = model.complete(one_request(self.messages, sampling, schema))
        self.calls += 1
        self.answer = completion.samples[0].text
        counted = [each for each in (completion.input_tokens, completion.output_tokens) if each is not None]
        self.tokens += sum(counted) if counted else estimate_tokens(chars + len(self.answer), 0)

    def _seed(self) -> int:
        return int.from_bytes(digest([self.journal.state.seed, self.iteration, self.calls])[:4]) >> 1


def decision_event(loop: str, iteration: int, decision: ManagerDecision | None, why: str) -> IterationDecided:
    """The event of a decision, without what it leads to. `prompt` and `answer` are set where it is appended."""
    nowhere = "0" * 64
    event = IterationDecided(
        loop=loop,
        iteration=iteration,
        decision="invalid" if decision is None else decision.kind,
        reasoning="" if decision is None else plain_line(decision.reasoning),
        confidence=decision.confidence if isinstance(decision, DelegateDecision | CompleteDecision) else None,
        prompt=nowhere,
        answer=nowhere,
        clarified=False,
        workers=(),
        deferred=0,
        refusal=plain_line(why),
        signature="",
        subtasks=(),
        hypotheses=(),
    )
    if isinstance(decision, PlanDecision):
        return event.model_copy(update={"subtasks": tuple(_subtasks(decision))})
    if isinstance(decision, DiagnoseDecision):
        return event.model_copy(update={"hypotheses": tuple(_hypotheses(decision))})
    return event


def _subtasks(decision: PlanDecision) -> list[PlannedSubtask]:
    return [
        PlannedSubtask(
            subtask=each.id,
            description=plain_line(each.description, 500),
            dependencies=each.dependencies,
            success_criteria=plain_line(each.success_criteria, 500),
        )
        for each in decision.subtasks[:64]
    ]


def _hypotheses(decision: DiagnoseDecision) -> list[StatedHypothesis]:
    return [
        StatedHypothesis(hypothesis=each.id, cause=plain_line(each.cause), test=plain_line(each.test))
        for each in decision.hypotheses[:16]
    ]
