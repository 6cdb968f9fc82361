"""The cases of AWP: those that stand in no other test, and that the documentation's table names tests there are."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from agents.delegation.prompts import WorkOrder
from agents.executors.delegation.workers import ModelWorker, WorkDesk
from agents.models.model import CompletionRequest
from agents.models.scripted import Scripted
from eventlog.events import LoopLimits
from tests.looping import a_loop, complete, delegate, events_of, kinds_of, prompt_of

ROOT = Path(__file__).parents[2]
FAIL = '{"decision": "fail"}'


def found(order: WorkOrder, _desk: WorkDesk) -> dict[str, Any]:
    return {"findings": f"{order.worker} did it", "confidence": 0.6}


def test_every_case_names_tests_that_there_are() -> None:
    table = [
        line for line in (ROOT / "docs" / "delegation-cases.md").read_text("utf-8").splitlines() if line[:1] == "|"
    ]
    named = [re.findall(r"`(test_\w+)`", line.split("|")[3]) for line in table[2:]]
    assert all(named)
    files = [
        *(ROOT / "tests" / "unit").glob("test_delegation*.py"),
        *(ROOT / "tests").glob("integration/test_deleg*.py"),
    ]
    there = {name for file in files for name in re.findall(r"^def (test_\w+)", file.read_text("utf-8"), re.MULTILINE)}
    assert {name for names in named for name in names} - there == set()


def test_a_submanager_that_fails_is_settled_and_its_confidence_is_nothing() -> None:
    def say(request: CompletionRequest) -> str:
        if "sub task" in prompt_of(request).partition("## Budget")[0]:
            return FAIL
        return FAIL if "Iter 1" in prompt_of(request) else delegate("boss", instructions="sub task", as_submanager=True)

    loop = a_loop(say, found)
    state = loop.run()
    assert state.latest["boss"].confidence == 0
    assert state.latest["boss"].status == "error"
    assert loop.journal.budget.pending == {}
    settled = [
        each for each in events_of(loop.journal) if each.type == "BudgetSettled" and each.reservation == "1/boss"
    ]
    assert [(each.amounts.loops, each.amounts.workers) for each in settled] == [(1, 1)]


def test_a_delegation_between_rejections_counts_them_anew() -> None:
    script = [complete("TBD"), complete("TBD"), delegate("a"), *[complete("TBD")] * 2, delegate("b"), complete()]
    loop = a_loop(script, found)
    assert loop.run().status == "complete"
    assert kinds_of(loop.journal).count("CompletionRejected") == 4


def test_a_manager_that_only_plans_is_refused_and_ended() -> None:
    plan = json.dumps({"decision": "plan", "subtasks": [{"id": "one", "description": "1"}]})
    loop = a_loop(lambda _r: plan, found)
    state = loop.run()
    assert (state.status, state.reason.partition(":")[0]) == ("partial_complete", "no_progress")
    assert [bool(each.refusal) for each in state.decisions] == [False, False, *[True] * 5]


@pytest.mark.parametrize("name", ["max_workers_per_iteration", "max_parallel_workers"])
def test_no_limit_of_nothing_means_without_limit(name: str) -> None:
    with pytest.raises(ValidationError):
        LoopLimits.model_validate({name: 0})


def test_a_worker_that_answers_in_plain_text_says_nothing_of_how_sure_it_is() -> None:
    loop = a_loop([delegate("a"), FAIL], ModelWorker(Scripted(["It is forty-two."])))
    loop.run()
    (returned,) = [event for event in events_of(loop.journal) if event.type == "WorkerReturned"]
    assert (returned.confidence, returned.source, returned.finding) == (0, "missing", "a: It is forty-two.")
