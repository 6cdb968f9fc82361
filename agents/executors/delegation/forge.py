"""The pipeline of a tool: cache, name, code, signature, placeholder, dry run; repair; registration. Thread-safe.

A refusal that can be repaired is repaired within the worker's turn, so a manager never sees it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from eventlog.events import ToolForged, ToolsConfig
from projections.delegation.tools import ToolEntry

from ...delegation.answers import recover_object
from ...delegation.envelopes import logical_worker
from ...delegation.prompts import repair_prompt
from ...delegation.results import plain_line
from ...delegation.tool_policy import (
    FaultCategory,
    ToolFault,
    ToolSpec,
    probe_inputs,
    read_tool,
    static_fault,
    tool_hash,
)
from .journal import LoopJournal
from .sandbox import Boxed, ToolSandbox

Repairer = Callable[[str], str]
"""Asks a model to repair a tool, by a prompt. Raises ModelFailure, WorkerOverBudget."""


@dataclass(frozen=True, slots=True)
class ForgedTool:
    """Outcome of a tool that a worker wrote. `fault` is set if it was refused in the end."""

    spec: ToolSpec
    is_cached: bool = False
    repairs: int = 0
    fault: ToolFault | None = None

    @property
    def category(self) -> FaultCategory | None:
        """The category of its refusal."""
        return None if self.fault is None else self.fault.category


@dataclass
class Forge:
    """Makes and calls the tools of one loop."""

    journal: LoopJournal
    sandbox: ToolSandbox
    config: ToolsConfig
    _specs: dict[str, ToolSpec] = field(default_factory=dict)

    def known_tools(self, iteration: int) -> Mapping[str, ToolSpec]:
        """The tools that the workers of an iteration are told of, by name.

        One that a sibling writes meanwhile, or a new version of one, can be called at once. It is told of from the next
        iteration on, so that what a worker is told depends neither on the order of threads nor on a kill.
        """
        with self.journal.lock:
            entries = dict(self.journal.tools.tools)
        there = {name: each.content if each.iteration < iteration else each.earlier for name, each in entries.items()}
        return {name: self._spec_at(content) for name, content in there.items() if content}

    def call(self, name: str, arguments: Mapping[str, Any]) -> Boxed:
        """Call a registered tool in the sandbox. An unknown one is an error in the answer."""
        with self.journal.lock:
            entry = self.journal.tools.tools.get(name)
        if entry is None:
            return Boxed(None, f"there is no tool called {name[:100]}")
        spec = self._spec_at(entry.content)
        timeout, memory = self.config.timeout_ms, self.config.memory_mb
        return self.sandbox.call(spec.code, dict(arguments), timeout_ms=timeout, memory_mb=memory)

    def forge(self, spec: ToolSpec, worker: str, iteration: int, repair: Repairer | None) -> ForgedTool:
        """Check a tool, repair it if that is possible, and register it."""
        fault, repairs = None, 0
        while True:
            cached = self._cached_tool(spec, worker, iteration)
            if cached is not None:
                return cached
            fault = self._limit_fault(spec, worker) or static_fault(spec, self.config) or self._probe_fault(spec)
            if fault is None:
                return self._register(spec, worker, iteration, repairs)
            if repair is None or not fault.is_repairable or repairs >= self.config.repair_attempts:
                return ForgedTool(spec, repairs=repairs, fault=fault)
            repairs += 1
            better = _repaired_tool(spec, repair(repair_prompt(spec, fault.why, fault.hint)))
            if better is None:
                return ForgedTool(spec, repairs=repairs, fault=fault)
            spec = better

    def _cached_tool(self, spec: ToolSpec, worker: str, iteration: int) -> ForgedTool | None:
        """The same tool, if it is registered. One that this very worker wrote in this iteration is no hit.

        A worker that is run again after a kill writes its tools again, and must report what it reported before.
        """
        with self.journal.lock:
            registry = self.journal.tools
        wanted = tool_hash(spec)
        entry = registry.tools.get(registry.hashes.get(wanted, ""))
        if entry is None or entry.code_hash != wanted:
            return None
        is_own = (entry.worker, entry.iteration) == (worker, iteration)
        return ForgedTool(spec, is_cached=not is_own, repairs=entry.repairs if is_own else 0)

    def _limit_fault(self, spec: ToolSpec, worker: str) -> ToolFault | None:
        if self.sandbox.kind == "none":
            return ToolFault("policy", 403, "there is no sandbox on this machine, so no tool runs")
        with self.journal.lock:
            entries = dict(self.journal.tools.tools)
        owner = logical_worker(worker)
        own = sum(logical_worker(each.worker) == owner for each in entries.values() if each.worker)
        if spec.fqn in entries:
            return None  # better code of a tool that is there
        if own >= self.config.max_tools_per_worker:
            return ToolFault("policy", 429, f"this worker has written {own} tools already")
        if len(entries) >= self.config.max_total:
            return ToolFault("policy", 429, f"there are {len(entries)} tools already")
        return None

    def _probe_fault(self, spec: ToolSpec) -> ToolFault | None:
        """B3: the fault of a dry run with synthetic arguments."""
        inputs, config = probe_inputs(spec), self.config
        found = self.sandbox.call(spec.code, inputs, timeout_ms=config.dry_run_ms, memory_mb=config.memory_mb)
        if found.value is not None:
            return None
        shown = json.dumps(inputs, default=str)[:300]
        return ToolFault("dry_run", 422, f"the dry run with {shown} failed: {found.error}", "Handle empty arguments.")

    def _register(self, spec: ToolSpec, worker: str, iteration: int, repairs: int) -> ForgedTool:
        """Register a tool, unless a sibling registered the same one or the last that may be during the dry run."""
        content = spec.model_dump_json().encode()
        with self.journal.lock:
            cached, fault = self._cached_tool(spec, worker, iteration), self._limit_fault(spec, worker)
            if cached is not None or fault is not None:
                return cached or ForgedTool(spec, repairs=repairs, fault=fault)
            before: ToolEntry | None = self.journal.tools.tools.get(spec.fqn)
            self.journal.append(
                ToolForged(
                    loop=self.journal.loop,
                    iteration=iteration,
                    worker=worker,
                    tool=spec.fqn,
                    version=1 if before is None else before.version + 1,
                    code_hash=tool_hash(spec),
                    content=self.journal.put_bytes(content),
                    line=plain_line(spec.description, 200),
                    repairs=repairs,
                )
            )
        return ForgedTool(spec, repairs=repairs)

    def _spec_at(self, content: str) -> ToolSpec:
        found = self._specs.get(content)
        if found is None:
            found = self._specs[content] = ToolSpec.model_validate_json(self.journal.text_at(content))
        return found


def _repaired_tool(spec: ToolSpec, answer: str) -> ToolSpec | None:
    """The repaired tool in a model's answer, under its own name; None if there is none."""
    found = recover_object(answer)
    if found is None or not isinstance(found.value.get("code"), str):
        return None
    parameters = found.value.get("parameters", spec.parameters)
    facts = {"fqn": spec.fqn, "code": found.value["code"], "parameters": parameters, "description": spec.description}
    return read_tool(facts)
