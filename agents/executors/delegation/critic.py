"""A worker's critic: a model at the worker's desk, and rules where it gives no critique."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from eventlog.events import Sampling

from ...delegation.critic import CRITIC, clarify_critique, critic_prompt, critique_schema, read_critique
from ...delegation.critique import MICRO, Critique, critique
from ...delegation.envelopes import Envelope
from ...models.errors import ModelFailure
from ...models.model import ChatMessage, Model
from .desk import WorkerDesk
from .errors import WorkerOverBudget
from .workers import one_request


@dataclass
class DeskCritic:
    """The critic of one worker's results. What it spends is charged to the worker, within the share for repairs."""

    model: Model | None
    desk: WorkerDesk
    allowance: int = field(init=False)
    before: int = field(init=False)

    def __post_init__(self) -> None:
        config, self.before = self.desk.config, self.desk.tokens
        most = config.budget.max_total_tokens * config.critique.repair_budget_fraction // MICRO
        with self.desk.journal.lock:
            self.allowance = most - self.desk.journal.state.critique_tokens

    @property
    def tokens_spent(self) -> int:
        """Tokens that critique and repair have cost so far."""
        return self.desk.tokens - self.before

    @property
    def may_go_on(self) -> bool:
        """False once critique and repair have spent their share of the tokens."""
        return self.tokens_spent < self.allowance

    def judge(self, envelope: Envelope, result: Mapping[str, Any], confidence: int, seed: int) -> Critique:
        """The critique of a result: by the model, after one clarification if need be, else by the rules."""
        unused = [each for each in envelope.required_tool_invocations if each not in self.desk.used]
        by_rules = critique(result, envelope.required_fields, confidence, unused)
        if self.model is None or self.desk.config.critique.mode != "model" or not self.may_go_on:
            return by_rules
        asked = critic_prompt(envelope.instructions, envelope.required_fields, result)
        messages = [ChatMessage("system", (CRITIC,)), ChatMessage("user", (asked,))]
        try:
            for number in range(2):
                said = self._ask(self.model, messages, seed + number)
                found = read_critique(said, by_rules, result)
                if found is not None:
                    return found
                messages += [
                    ChatMessage("assistant", (said[:2_000] or "(nothing)",)),
                    ChatMessage("user", (clarify_critique(),)),
                ]
        except (ModelFailure, WorkerOverBudget):
            return by_rules  # the worker's result is there; an outage pauses the loop at its next decision
        return by_rules

    def _ask(self, model: Model, messages: list[ChatMessage], seed: int) -> str:
        config = self.desk.config
        sampling = Sampling(
            temperature_micro=0, max_tokens=config.max_tokens, seed=seed % 2**31 if model.offers.seed else None
        )
        schema = critique_schema() if model.offers.schema else None
        return self.desk.complete(model, one_request(messages, sampling, schema)).samples[0].text
