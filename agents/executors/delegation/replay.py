"""Replay of a delegation loop without a model: each prompt is made again from the log, each answer is read again."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace

from eventlog.blobs import BlobStore
from eventlog.events import BudgetReserved, IterationDecided, LoopOpened
from eventlog.store import EventStore
from projections.delegation.budgets import LoopBudget, loop_stream
from projections.delegation.loop_state import LoopState
from projections.delegation.skills import SkillCatalogue

from ...delegation.decisions import NotADecision, read_decision
from ...delegation.prompts import manager_prompt
from ...delegation.rules import offered_decisions
from ...delegation.view import manager_view
from ...delegation.wording import prompt_wording
from .errors import NoSuchLoop
from .journal import LoopStates


@dataclass(frozen=True, slots=True)
class LoopReplay:
    """Result of a replay: decisions made again, and the first that differs (None: none does).

    `reworded` prompts are worded otherwise than they were: the wording of today's prompts is not that of the loop's.
    """

    loop: str
    decisions: int
    divergence: str | None
    reworded: int = 0


@dataclass
class _Replaying:
    store: EventStore
    blobs: BlobStore
    states: LoopStates
    task: str = ""
    wording: str | None = None
    before: tuple[LoopState, LoopBudget, SkillCatalogue] | None = None
    found: LoopReplay = field(init=False)

    def __post_init__(self) -> None:
        self.found = LoopReplay(self.states.loop, 0, None)

    def text_at(self, address: str) -> str:
        return self.blobs.get(address).body.decode()


def replay_loop(store: EventStore, blobs: BlobStore, loop: str) -> LoopReplay:
    """Make every prompt of a loop again from its folds, and read every answer again. Raises NoSuchLoop, BlobErased.

    Of a loop whose prompts were worded otherwise the answers are compared, and the prompts that differ are counted.
    """
    replaying = _Replaying(store, blobs, LoopStates(loop))
    for recorded in store.read(stream=loop_stream(loop)):
        states, event = replaying.states, recorded.event
        if isinstance(event, BudgetReserved) and event.reservation.endswith("/manager"):
            if event.reservation not in states.budget.pending:  # a clarification changes the reservation it has
                replaying.before = (states.state, states.budget, states.skills)
        elif isinstance(event, LoopOpened):
            replaying.wording = event.prompts
        elif isinstance(event, IterationDecided):
            divergence = _divergence(replaying, event)
            if divergence is not None:
                return replace(replaying.found, divergence=divergence)
            replaying.found = replace(replaying.found, decisions=replaying.found.decisions + 1)
        states.fold(recorded)
        replaying.task = replaying.task or replaying.text_at(states.state.task)
    if not replaying.task:
        raise NoSuchLoop(actual=loop)
    return replaying.found


def _divergence(replaying: _Replaying, event: IterationDecided) -> str | None:
    if replaying.before is None:
        return f"iteration {event.iteration} has no reservation"
    state, budget, skills = replaying.before
    config = state.loop_config()
    prompt = manager_prompt(manager_view(replaying.task, state, budget, skills, config))
    if hashlib.sha256(prompt.encode(errors="replace")).hexdigest() != event.prompt:
        replaying.text_at(event.prompt)
        if replaying.wording in {None, prompt_wording()}:
            unsaid = "" if replaying.wording else "; the log does not say how prompts were worded then"
            return f"the prompt of iteration {event.iteration} is another one{unsaid}"
        replaying.found = replace(replaying.found, reworded=replaying.found.reworded + 1)
    try:
        kind: str = read_decision(replaying.text_at(event.answer), offered_decisions(config)).kind
    except NotADecision:
        kind = "invalid"
    if kind != event.decision:
        return f"the answer of iteration {event.iteration} is read as {kind}; recorded {event.decision}"
    return None
