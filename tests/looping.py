"""Delegation loops in memory: a journal, a manager and workers of functions."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from agents.executors.delegation.journal import LoopJournal
from agents.executors.delegation.loop import DelegationLoop, LoopMeans
from agents.executors.delegation.opening import Opening, open_loop
from agents.executors.delegation.sandbox import NoSandbox, ToolSandbox
from agents.executors.delegation.truth import NO_TRUTH, GroundTruth
from agents.executors.delegation.workers import FunctionWorker, Worker
from agents.models.model import CompletionRequest
from agents.models.scripted import Script, Scripted
from eventlog.blobs import MemoryBlobs
from eventlog.events import AnyEvent, LoopConfig
from eventlog.memory import MemoryStore

STEP = 1_000


def a_journal(config: LoopConfig | None = None, task: str = "Solve it", **opening: Any) -> LoopJournal:
    """The journal of a loop that was just opened, on a log in memory and with a clock that ticks by the call."""
    ticks = itertools.count(0, STEP)
    store = MemoryStore(lambda: datetime(2026, 1, 1, tzinfo=UTC))
    journal = LoopJournal(store, MemoryBlobs(), "loop-1", lambda: next(ticks))
    open_loop(journal, Opening(task, "scripted", "function", config or LoopConfig(), **opening))
    return journal


def a_loop(
    script: Script,
    worker: Callable[..., dict[str, Any]] | Worker,
    journal: LoopJournal | None = None,
    sandbox: ToolSandbox | None = None,
    truth: GroundTruth = NO_TRUTH,
    critic: Script | None = None,
) -> DelegationLoop:
    """A loop of a scripted manager and a worker."""
    found = FunctionWorker(worker) if callable(worker) else worker
    judging = None if critic is None else Scripted(critic)
    means = LoopMeans(Scripted(script), found, sandbox or NoSandbox(), truth, critic=judging)
    return DelegationLoop(journal or a_journal(), means)


def events_of(journal: LoopJournal) -> list[AnyEvent]:
    """The events of a journal's log, in order."""
    return [recorded.event for recorded in journal.store.read()]


def kinds_of(journal: LoopJournal) -> list[str]:
    """The types of these events."""
    return [event.type for event in events_of(journal)]


def delegate(*workers: str, instructions: str = "work on it", **fields: Any) -> str:
    """A manager's answer that delegates to these workers."""
    told = [{"worker_id": each, "instructions": f"{instructions} {each}", **fields} for each in workers]
    return json.dumps({"decision": "delegate", "reasoning": "next", "delegations": told})


def complete(answer: str = "42", confidence: float = 0.9) -> str:
    """A manager's answer that completes."""
    return json.dumps({"decision": "complete", "final_result": {"answer": answer}, "confidence": confidence})


def prompt_of(request: CompletionRequest) -> str:
    """The user message of a manager's turn."""
    return request.messages[1].text
