"""A parent's answer to its sub-manager that waits: at most two calls of the parent's model, within its budget."""

from __future__ import annotations

from dataclasses import dataclass

from eventlog.chain import digest
from eventlog.events import BudgetSettled, EscalationAnswered, LoopConfig, Sampling
from projections.delegation.budgets import Amounts

from ...delegation.budget import estimate_tokens
from ...delegation.escalation import ASKED, NO_ANSWER, SHAPE, clarify_answer, escalation_prompt, read_answer
from ...delegation.view import summary_of
from ...models.errors import ModelFailure
from ...models.model import ChatMessage, Model
from .journal import LoopJournal
from .workers import one_request


@dataclass
class ParentAnswer:
    """The answer of a loop's manager to one question of a sub-manager, which `reservation` is for."""

    journal: LoopJournal
    model: Model
    config: LoopConfig
    reservation: str
    tokens: int = 0

    def give(self, child: LoopJournal) -> None:
        """Record the answer in the sub-manager's loop together with the charge for it.

        Raises ModelFailure, after charging what was spent and releasing the rest.
        """
        try:
            answer = self._ask(child)
        except ModelFailure:
            self.journal.append(*self._settlements())
            raise
        answered = EscalationAnswered(loop=child.loop, answer=answer)
        settled = self._settlements()
        if settled:
            child.append_with(answered, other=self.journal, others=settled)
        else:
            child.append(answered)

    def _settlements(self) -> list[BudgetSettled]:
        """The charge for the calls, if any was made."""
        is_reserved = self._name in self.journal.budget.pending
        return [self.journal.settlement(self._name, Amounts(tokens=self.tokens))] if is_reserved else []

    @property
    def _name(self) -> str:
        return f"{self.reservation}/answer"

    def _ask(self, child: LoopJournal) -> str:
        state = child.state
        summary = summary_of(state, child.state.loop_config())
        task = self.journal.text_at(self.journal.state.task)
        prompt = escalation_prompt(task, child.text_at(state.task), summary, state.question or "")
        messages = [ChatMessage("system", (ASKED,)), ChatMessage("user", (prompt,))]
        for number in range(2):
            said = self._complete(messages, number)
            if said is None:
                break
            if (answer := read_answer(said)) is not None:
                return answer
            messages += [
                ChatMessage("assistant", (said[:2_000] or "(nothing)",)),
                ChatMessage("user", (clarify_answer(),)),
            ]
        return NO_ANSWER

    def _complete(self, messages: list[ChatMessage], number: int) -> str | None:
        """What the model says; None if the budget does not allow the call."""
        chars = sum(len(message.text) for message in messages)
        wanted = Amounts(tokens=self.tokens + estimate_tokens(chars, self.config.max_tokens))
        if self.journal.reserve(self.config.budget, self._name, wanted) is not None:
            return None
        seed = int.from_bytes(digest([self.journal.state.seed, self._name, number])[:4]) >> 1
        sampling = Sampling(
            temperature_micro=self.config.temperature,
            max_tokens=self.config.max_tokens,
            seed=seed if self.model.offers.seed else None,
        )
        schema = SHAPE if self.model.offers.schema else None
        completion = self.model.complete(one_request(messages, sampling, schema))
        said = completion.samples[0].text
        counted = [each for each in (completion.input_tokens, completion.output_tokens) if each is not None]
        self.tokens += sum(counted) if counted else estimate_tokens(chars + len(said), 0)
        return said
