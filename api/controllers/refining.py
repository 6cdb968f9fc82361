"""Refine the result of an ended delegation loop: further loops improve on the best one so far."""

from __future__ import annotations

import json
from dataclasses import dataclass

from agents.delegation.refinement import halve_budget, loss_of, refined_task, what_to_improve, why_refined_enough
from agents.executors.delegation.errors import LoopPlayedOtherwise, NothingToRefine
from agents.executors.delegation.journal import LoopJournal
from agents.executors.delegation.loop import LoopMeans, Progress, no_progress
from projections.delegation.loop_state import LoopState

from ..house import House
from .delegation import LoopRequest, journals_of, start_loop

MOST_ROUNDS = 10


@dataclass(frozen=True, slots=True)
class Refinement:
    """Outcome of a refinement: the best loop (the first one, if none was better), its rounds, and why it ended."""

    best: LoopState
    rounds: tuple[LoopState, ...]
    why: str


def refine_loop(
    house: House, loop: str, means: LoopMeans, rounds: int = 3, progress: Progress = no_progress
) -> Refinement:
    """Play loops that improve on a loop's result, until nothing is left to improve or it helps no more.

    Raises NothingToRefine, LoopPlayedOtherwise, and what start_loop raises.
    """
    first = _ended_journal(house, loop, means)
    best, losses, played = first.state, [loss_of(first.state)], list[LoopState]()
    why = f"{rounds} rounds were played"
    for number in range(1, rounds + 1):
        lines = what_to_improve(best, best.loop_config())
        if not lines:
            why = "nothing is left to improve"
            break
        state = start_loop(house, _request(house, first, best, lines, number), means, progress)
        played.append(state)
        if state.is_open:
            why = f"{state.loop} waits for an answer"
            break
        losses.append(loss_of(state))
        best = state if losses[-1] < loss_of(best) else best
        enough = why_refined_enough(losses)
        if enough is not None:
            why = enough
            break
    if not played:
        raise NothingToRefine(loop=loop, actual="complete, and every result is accepted", expected="one to improve")
    return Refinement(best, tuple(played), why)


def _ended_journal(house: House, loop: str, means: LoopMeans) -> LoopJournal:
    """The journal of a loop that has ended with a result. Raises NothingToRefine, LoopPlayedOtherwise."""
    journal = journals_of(house)(loop)
    state = journal.state
    if not state.status or state.is_open or state.result is None or state.status == "aborted":
        actual = state.status or "there is no such loop"
        raise NothingToRefine(loop=loop, actual=actual, expected="a loop that ended with a result")
    if state.graded != means.truth.is_graded:
        words = {True: "a grader", False: "no grader"}
        expected, actual = words[state.graded], words[means.truth.is_graded]
        raise LoopPlayedOtherwise(loop=loop, expected=expected, actual=actual)
    return journal


def _request(house: House, first: LoopJournal, best: LoopState, lines: tuple[str, ...], number: int) -> LoopRequest:
    config = first.state.loop_config()
    result = json.loads(house.blobs.get(str(best.result)).body).get("result") or {}
    task = refined_task(first.text_at(first.state.task), json.dumps(result, ensure_ascii=False), lines)
    return LoopRequest(
        task=task,
        config=config.model_copy(update={"budget": halve_budget(config, first.budget.spent, task)}),
        seed=first.state.seed + number,
        refines=best.loop,
    )
