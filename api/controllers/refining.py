"""Refine the result of an ended delegation loop: further loops improve on the best one so far.

The rounds are loops named for the first one, so a refinement that was killed goes on where it was.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from agents.delegation.refinement import (
    halve_budget,
    has_no_more_time,
    loss_of,
    refined_task,
    what_to_improve,
    why_refined_enough,
)
from agents.executors.delegation.errors import NothingToRefine
from agents.executors.delegation.journal import LoopJournal
from agents.executors.delegation.loop import LoopMeans, Progress, no_progress
from projections.delegation.loop_state import LoopState

from ..house import House
from .delegation import LoopRequest, journals_of, refuse_other_truth, resume_loop, start_loop

MOST_ROUNDS = 10
_STEM = 150
"""Characters of a loop's name that the names of its rounds begin with."""


@dataclass(frozen=True, slots=True)
class Refinement:
    """Outcome of a refinement: the best loop (the first one, if none was better), its rounds, and why it ended."""

    best: LoopState
    rounds: tuple[LoopState, ...]
    why: str


def round_name(loop: str, number: int) -> str:
    """Name of the loop that is the n-th round of a loop's refinement."""
    return f"{loop[:_STEM]}.refined{number}"


def refine_loop(
    house: House, loop: str, means: LoopMeans, rounds: int = 3, progress: Progress = no_progress
) -> Refinement:
    """Play loops that improve on a loop's result, until nothing is left to improve or it helps no more.

    Rounds that were played before count, and one that was interrupted is resumed.
    Raises NothingToRefine, LoopPlayedOtherwise, and what start_loop and resume_loop raise.
    """
    first = _ended_journal(house, loop, means)
    best, losses, played = first, [loss_of(first.state, first.budget)], list[LoopJournal]()
    why = f"{rounds} rounds were played"
    for number in range(1, rounds + 1):
        lines = what_to_improve(best.state, best.state.loop_config())
        if not lines:
            why = "nothing is left to improve"
            break
        journal = _play_round(house, first, best, lines, number, means, progress)
        played.append(journal)
        if journal.state.is_open:
            why = f"{journal.loop} waits for an answer"
            break
        losses.append(loss_of(journal.state, journal.budget))
        best = journal if losses[-1] < min(losses[:-1]) else best
        enough = _why_enough(first, played, losses)
        if enough is not None:
            why = enough
            break
    if not played:
        raise NothingToRefine(loop=loop, actual="complete, and every result is accepted", expected="one to improve")
    return Refinement(best.state, tuple(each.state for each in played), why)


def _why_enough(first: LoopJournal, played: list[LoopJournal], losses: list[int]) -> str | None:
    """Why no further round is played after these, or None."""
    last = played[-1]
    if not _result_of(last):
        return f"{last.loop} brought no result ({last.state.status}: {last.state.reason})"
    if has_no_more_time(first.budget.spent, [each.budget.spent for each in played]):
        return "the rounds took twice as long as the first loop"
    return why_refined_enough(losses)


def _play_round(
    house: House,
    first: LoopJournal,
    best: LoopJournal,
    lines: tuple[str, ...],
    number: int,
    means: LoopMeans,
    progress: Progress,
) -> LoopJournal:
    """The journal of a round after its end: played now, resumed, or as it ended before."""
    name = round_name(first.loop, number)
    before = journals_of(house)(name).state
    if not before.status:
        start_loop(house, _request(first, best, lines, number), means, progress)
    elif before.is_open:
        resume_loop(house, name, means, progress)
    return journals_of(house)(name)


def _ended_journal(house: House, loop: str, means: LoopMeans) -> LoopJournal:
    """The journal of a loop that has ended with a result. Raises NothingToRefine, LoopPlayedOtherwise."""
    journal = journals_of(house)(loop)
    state = journal.state
    if not state.status or state.is_open or state.result is None or state.status == "aborted":
        actual = state.status or "there is no such loop"
        raise NothingToRefine(loop=loop, actual=actual, expected="a loop that ended with a result")
    refuse_other_truth(state, means.truth)  # results that others judge cannot be compared
    return journal


def _request(first: LoopJournal, best: LoopJournal, lines: tuple[str, ...], number: int) -> LoopRequest:
    config = first.state.loop_config()
    earlier = json.dumps(_result_of(best), ensure_ascii=False)
    task = refined_task(first.text_at(first.state.task), earlier, lines)
    return LoopRequest(
        task=task,
        config=config.model_copy(update={"budget": halve_budget(config, first.budget.spent, task)}),
        seed=first.state.seed + number,
        refines=best.loop,
        name=round_name(first.loop, number),
    )


def _result_of(journal: LoopJournal) -> dict[str, object]:
    found = journal.record_at(str(journal.state.result)).get("result")
    return found if isinstance(found, dict) else {}
