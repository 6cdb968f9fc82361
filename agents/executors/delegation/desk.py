"""A worker's desk: its model calls, tool calls and tools, each reserved in the budget before it is spent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from eventlog.events import LoopConfig, Sampling
from projections.delegation.budgets import Amounts

from ...delegation.budget import MICRO, OverBudget, estimate_tokens, remaining_amounts
from ...delegation.tool_policy import FaultCategory, ToolFault, ToolSpec
from ...models.model import ChatMessage, Completion, CompletionRequest, Model
from .errors import WorkerOverBudget
from .forge import Forge, ForgedTool
from .journal import LoopJournal
from .sandbox import Boxed
from .workers import one_request


@dataclass
class WorkerDesk:
    """The desk of one worker in one iteration. Used by one thread."""

    journal: LoopJournal
    forge: Forge
    config: LoopConfig
    worker: str
    iteration: int
    allowed: frozenset[str] | None
    may_create: bool
    repairer: Model | None
    tokens: int = 0
    tool_calls: int = 0
    passed_calls: int = 0
    used: list[str] = field(default_factory=list)
    cache_hits: int = 0
    refused: list[FaultCategory] = field(default_factory=list)
    last_error: str = ""

    @property
    def reservation(self) -> str:
        """Name of the worker's reservation."""
        return f"{self.iteration}/{self.worker}"

    @property
    def amounts_spent(self) -> Amounts:
        """Amounts that the worker has spent so far."""
        return Amounts(workers=1, tokens=self.tokens, tool_calls=self.tool_calls)

    def begin(self) -> OverBudget | None:
        """Reserve the worker itself. Returns the limit that refuses it."""
        return self.journal.reserve(self.config.budget, self.reservation, self.amounts_spent)

    def ask(self, model: Model, messages: Sequence[ChatMessage], sampling: Sampling) -> str:
        """See WorkDesk.ask."""
        return self.complete(model, one_request(messages, sampling)).samples[0].text

    def complete(self, model: Model, request: CompletionRequest) -> Completion:
        """See WorkDesk.complete."""
        chars = sum(len(message.text) for message in request.messages)
        self._reserve(tokens=estimate_tokens(chars, request.sampling.max_tokens))
        completion = model.complete(request)
        counted = (completion.input_tokens, completion.output_tokens)
        known = [each for each in counted if each is not None]
        said = sum(len(sample.text) for sample in completion.samples)
        self.tokens += sum(known) if len(known) == len(counted) else estimate_tokens(chars + said, 0)
        return completion

    def count_step(self, *, is_failed: bool) -> None:
        """See WorkDesk.count_step."""
        self._reserve(tool_calls=1)
        self.tool_calls += 1
        self.passed_calls += not is_failed

    def call_tool(self, name: str, arguments: Mapping[str, Any]) -> Boxed:
        """See WorkDesk.call_tool."""
        if not self.config.tools.enabled or (self.allowed is not None and name not in self.allowed):
            return Boxed(None, f"the tool {name[:100]} is not allowed here")
        self._reserve(tool_calls=1)
        self.tool_calls += 1
        found = self.forge.call(name, arguments)
        self.passed_calls += found.value is not None
        self.last_error = found.error or self.last_error
        if found.value is not None and name not in self.used:
            self.used.append(name)
        return found

    def write_tool(self, spec: ToolSpec) -> ForgedTool:
        """See WorkDesk.write_tool. A tool that a worker wrote it may call."""
        if not (self.config.tools.enabled and self.may_create):
            return ForgedTool(spec, fault=ToolFault("policy", 403, "this worker may not create tools"))
        self._reserve(tool_calls=1)
        self.tool_calls += 1
        made = self.forge.forge(spec, self.worker, self.iteration, self._repair if self.repairer else None)
        self.cache_hits += made.is_cached
        if made.category is not None:
            self.refused.append(made.category)
        else:
            self.passed_calls += 1
            if self.allowed is not None:
                self.allowed |= {spec.fqn}
        return made

    def seconds_left(self) -> float:
        """See WorkDesk.seconds_left."""
        with self.journal.lock:
            left = remaining_amounts(self.journal.budget, self.config.budget).wall
            return max(0.0, (left - self.journal.uncharged_microseconds()) / MICRO)

    def tools(self) -> Mapping[str, ToolSpec]:
        """The tools that the worker is told of: those there were when its iteration began."""
        known = self.forge.known_tools(self.iteration) if self.config.tools.enabled else {}
        return {name: spec for name, spec in known.items() if self.allowed is None or name in self.allowed}

    def _repair(self, prompt: str) -> str:
        if self.repairer is None:
            return ""
        sampling = Sampling(temperature_micro=0, max_tokens=self.config.max_tokens)
        return self.ask(self.repairer, [ChatMessage("user", (prompt,))], sampling)

    def _reserve(self, *, tokens: int = 0, tool_calls: int = 0) -> None:
        wanted = self.amounts_spent.plus(Amounts(tokens=tokens, tool_calls=tool_calls))
        refused = self.journal.reserve(self.config.budget, self.reservation, wanted)
        if refused is not None:
            raise WorkerOverBudget(actual=refused.why)
