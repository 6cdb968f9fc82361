"""A refinement of a delegation loop's result: what it compares, when it ends, and that a kill costs no round."""

from __future__ import annotations

from typing import Any

import pytest

from agents.delegation.prompts import WorkOrder
from agents.executors.delegation.errors import LoopPlayedOtherwise
from agents.executors.delegation.loop import LoopMeans
from agents.executors.delegation.sandbox import NoSandbox
from agents.executors.delegation.truth import GroundTruth
from agents.executors.delegation.workers import FunctionWorker, WorkDesk
from agents.models.model import CompletionRequest
from agents.models.scripted import Scripted
from api.controllers.delegation import LoopRequest, start_loop
from api.controllers.refining import refine_loop, round_name
from api.house import House
from projections.delegation.loops import LOOPS
from tests.looping import complete, delegate, prompt_of

BETTER = {1: 0.6, 2: 0.7, 3: 0.75}
"""The confidence that each round comes to."""


def means(seen: list[str], truth: GroundTruth | None = None) -> LoopMeans:
    """A manager and a worker that come to something else in each round; `seen` are the tasks that were begun."""
    rounds = [0]

    def decide(request: CompletionRequest) -> str:
        prompt = prompt_of(request)
        if "### Iteration" in prompt:
            return complete(f"draft {rounds[0]}", BETTER.get(rounds[0], 0.55))
        rounds[0] += 1
        seen.append(prompt.partition("## Budget")[0])
        return delegate("a")

    def work(_order: WorkOrder, _desk: WorkDesk) -> dict[str, Any]:
        return {"findings": f"draft {rounds[0]}", "confidence": BETTER.get(rounds[0], 0.55)}

    return LoopMeans(Scripted(decide), FunctionWorker(work), NoSandbox(), truth or GroundTruth())


class Killed(BaseException):
    """The process ended."""


def test_a_refinement_that_was_killed_goes_on_with_the_round_that_was_open(empty_house: House) -> None:
    begun: list[str] = []
    first = start_loop(empty_house, LoopRequest("Write"), means(begun))
    steps = [0]

    def die(journal: Any) -> None:
        steps[0] += journal.loop == round_name(first.loop, 2)
        if steps[0]:
            raise Killed

    playing = means(begun)
    with pytest.raises(Killed):
        refine_loop(empty_house, first.loop, playing, 3, die)
    empty_house.projector.catch_up()
    states = empty_house.views().find(LOOPS, first.loop)
    assert {name: state.is_open for name, state in states.items()} == {
        first.loop: False,
        round_name(first.loop, 1): False,
        round_name(first.loop, 2): True,
    }
    begun.clear()
    found = refine_loop(empty_house, first.loop, playing, 2)
    assert [each.loop for each in found.rounds] == [round_name(first.loop, n) for n in (1, 2)]
    assert begun == []  # the second round had begun, and the first one was not played again
    assert found.why == "2 rounds were played"
    again = refine_loop(empty_house, first.loop, playing, 2)
    assert ([each.result for each in again.rounds], begun) == ([each.result for each in found.rounds], [])
    more = refine_loop(empty_house, first.loop, playing, 3)
    assert len(more.rounds) == 3
    assert len(begun) == 1


def test_a_result_is_refined_under_the_judges_it_had(empty_house: House) -> None:
    judged = GroundTruth(grade=lambda _r: False, grader="grade (SHA-256 1)")
    first = start_loop(empty_house, LoopRequest("Write"), means([], judged))
    others = GroundTruth(grade=lambda _r: False, grader="grade (SHA-256 2)")
    for truth in (others, GroundTruth()):
        with pytest.raises(LoopPlayedOtherwise):
            refine_loop(empty_house, first.loop, means([], truth))


def test_a_round_without_a_result_ends_a_refinement(empty_house: House) -> None:
    first = start_loop(empty_house, LoopRequest("Write"), means([]))
    playing = means([])
    nothing = LoopMeans(Scripted(lambda _r: delegate("a")), playing.worker, NoSandbox())
    found = refine_loop(empty_house, first.loop, nothing)
    assert len(found.rounds) == 1
    assert "brought no result" in found.why
    assert found.best.loop == first.loop
