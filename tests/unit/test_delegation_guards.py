"""What a delegation loop cannot get round: its budget, the caps of its tree, its clock, its plan and its diagnoses."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import pytest

from agents.delegation.prompts import WorkOrder
from agents.executors.delegation.clock import charge_meanwhile
from agents.executors.delegation.fanout import SubmanagerTree, child_name
from agents.executors.delegation.journal import CLOCK, LoopJournal
from agents.executors.delegation.workers import CommandWorker, WorkDesk
from agents.models.model import CompletionRequest
from agents.models.scripted import Scripted
from api.controllers.delegation import count_submanagers
from eventlog.events import CritiqueConfig, LoopConfig, LoopLimits, StallDetectionConfig
from projections.delegation.budgets import Amounts
from tests.looping import a_journal, a_loop, complete, delegate, events_of, prompt_of

SECOND = 1_000_000


def found(order: WorkOrder, _desk: WorkDesk) -> dict[str, Any]:
    return {"findings": f"{order.worker} did it", "confidence": 0.6}


def limits(**budget: int) -> LoopConfig:
    return LoopConfig(budget=LoopLimits(**budget))


def test_of_twenty_threads_that_reserve_a_hundred_of_fifteen_hundred_fifteen_succeed() -> None:
    config = limits(max_total_tokens=1_500)
    journal, start, refused = a_journal(config), threading.Barrier(20), list[object]()

    def reserve(number: int) -> None:
        start.wait()
        refused.append(journal.reserve(config.budget, f"1/w{number}", Amounts(tokens=100)))

    threads = [threading.Thread(target=reserve, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [each is None for each in refused].count(True) == 15
    assert journal.budget.spent_and_reserved.tokens == 1_500
    assert LoopJournal(journal.store, journal.blobs, "loop-1", journal.stopwatch).budget == journal.budget


def a_clocked(config: LoopConfig) -> tuple[LoopJournal, list[int]]:
    """A journal with a clock that is set by hand, in microseconds."""
    now = [0]
    made = a_journal(config)
    return LoopJournal(made.store, made.blobs, "loop-1", lambda: now[0]), now


def test_time_that_passes_in_a_long_step_is_charged_before_the_step_ends() -> None:
    journal, now = a_clocked(limits(max_wall_time=60))
    with charge_meanwhile(journal, every_s=0.01):
        now[0] = 45 * SECOND
        for _ in range(500):
            if journal.budget.spent.wall:
                break
            time.sleep(0.01)
    resumed = LoopJournal(journal.store, journal.blobs, "loop-1", lambda: 0)
    assert resumed.budget.spent.wall == 45 * SECOND
    assert {each.reservation for each in events_of(journal) if each.type == "BudgetSettled"} == {CLOCK}


def test_a_loop_that_is_killed_again_and_again_runs_out_of_time_all_the_same() -> None:
    journal, now = a_clocked(limits(max_wall_time=60))
    for _ in range(2):
        journal.start_clock()
        now[0] += 30 * SECOND
        journal.charge_time()
        journal = LoopJournal(journal.store, journal.blobs, "loop-1", lambda: now[0])  # the process was killed
    state = a_loop([delegate("a")], found, journal).run()
    assert state.reason == "budget_exhausted: max_wall_time exceeded"


def test_a_pause_is_not_charged_when_the_same_process_goes_on() -> None:
    journal, now = a_clocked(LoopConfig())
    now[0] = 3_000 * SECOND  # a person thinks about an answer
    assert a_loop([delegate("a"), complete()], found, journal).run().status == "complete"
    assert journal.budget.spent.wall == 0


def test_a_worker_is_stopped_by_wall_time_in_the_midst_of_its_work() -> None:
    journal, now = a_clocked(limits(max_wall_time=60))
    done: list[int] = []

    def work(_order: WorkOrder, desk: WorkDesk) -> dict[str, Any]:
        for number in range(5):
            now[0] += 25 * SECOND
            desk.count_step(is_failed=False)
            done.append(number)
        return {"findings": "all of it"}

    state = a_loop([delegate("a")], work, journal).run()
    assert (len(done), state.reason) == (2, "budget_exhausted: max_wall_time exceeded")


def test_steps_of_a_worker_count_as_tool_calls_within_the_limit() -> None:
    def work(_order: WorkOrder, desk: WorkDesk) -> dict[str, Any]:
        for _ in range(9):
            desk.count_step(is_failed=False)
        return {"findings": "all of it"}

    loop = a_loop([delegate("a"), complete()], work, a_journal(limits(max_tool_calls=4)))
    assert loop.run().reason == "budget_exhausted: max_tool_calls reached"
    assert loop.journal.budget.spent.tool_calls == 4


def test_a_command_gets_no_more_time_than_its_loop_has_left() -> None:
    journal, _ = a_clocked(limits(max_wall_time=1))
    loop = a_loop([delegate("a"), '{"decision": "fail"}'], CommandWorker(("sleep", "60")), journal)
    loop.run()
    returned = next(each for each in events_of(journal) if each.type == "WorkerReturned")
    assert returned.status == "error"
    assert "timed out after 1" in returned.finding


def boss(request: CompletionRequest) -> str:
    """A manager that has everything done by four sub-managers at a time, at each level."""
    prompt = prompt_of(request)
    if "Iter 2" in prompt or ("sub task" in prompt.partition("## Budget")[0] and "Iter 1" in prompt):
        return complete("done")
    told = [{"worker_id": f"boss{n}", "instructions": f"sub task {n}", "as_submanager": True} for n in range(4)]
    return json.dumps({"decision": "delegate", "delegations": told})


def test_no_tree_opens_more_than_six_submanagers_and_no_more_than_three_run_at_once() -> None:
    class Watched(SubmanagerTree):
        most = 0

        def enter(self, depth: int, limits: LoopLimits, *, is_new: bool) -> str | None:
            why = super().enter(depth, limits, is_new=is_new)
            with self.lock:
                type(self).most = max(type(self).most, self.concurrent)
            return why

    loop = a_loop(boss, found)
    loop.tree = Watched()
    assert loop.run().status == "complete"
    opened = [each for each in events_of(loop.journal) if each.type == "LoopOpened"]
    assert 1 <= len(opened) - 1 == loop.tree.total == count_submanagers(loop.journal) <= 6
    assert Watched.most <= 3
    notes = {each.note for each in events_of(loop.journal) if each.type == "WorkerReturned" and each.note}
    too_small = "the rest of the budget is too small for a sub-manager"
    assert notes <= {"max_total_submanagers_per_run reached", "max_concurrent_submanagers reached", too_small}
    assert notes
    children = [each.config.budget for each in opened[1:]]
    assert all(each.max_loops <= 30 and each.max_total_workers <= 150 for each in children)


def test_a_submanager_that_could_not_be_opened_counts_for_nothing() -> None:
    loop = a_loop([delegate("boss", as_submanager=True), complete()], found, a_journal(limits(max_tool_calls=2)))
    loop.run()
    assert (loop.tree.total, loop.tree.concurrent) == (0, 0)
    returned = next(each for each in events_of(loop.journal) if each.type == "WorkerReturned")
    assert returned.note == "the rest of the budget is too small for a sub-manager"


def test_a_submanager_that_a_kill_left_unopened_gets_what_was_reserved_and_the_time_that_is_left() -> None:
    config = limits(max_wall_time=100)
    journal, now = a_clocked(config)
    a_loop([delegate("boss", as_submanager=True)], found, journal)._decide()
    name = child_name(journal.state, "1/boss")
    reserved = Amounts(loops=5, workers=8, tokens=90_000, tool_calls=70)
    assert journal.reserve(config.budget, "1/boss", reserved, child=name) is None
    now[0] += 60 * SECOND
    journal.charge_time()
    resumed = LoopJournal(journal.store, journal.blobs, "loop-1", lambda: now[0])
    a_loop(lambda r: complete() if "Iter 1" in prompt_of(r) else delegate("leaf"), found, resumed).run()
    opened = next(each.event for each in resumed.store.read(stream=f"loop/{name}"))
    assert opened.type == "LoopOpened"
    budget = opened.config.budget
    found_limits = budget.max_loops, budget.max_total_workers, budget.max_total_tokens, budget.max_tool_calls
    assert found_limits == (5, 7, 90_000, 70)
    assert budget.max_wall_time <= 40


DIAGNOSIS = json.dumps(
    {
        "decision": "diagnose",
        "failed_worker": "a",
        "hypotheses": [{"id": "h1", "cause": "a typo", "test": "read it again"}, {"id": "h2", "cause": "bad luck"}],
    }
)


def test_a_diagnosis_runs_light_workers_that_close_its_hypotheses_and_is_no_progress() -> None:
    orders: list[WorkOrder] = []

    def work(order: WorkOrder, _desk: WorkDesk) -> dict[str, Any]:
        orders.append(order)
        return {"findings": order.worker, "confidence": 0.9 if "typo" in order.instructions else 0.1}

    loop = a_loop([DIAGNOSIS, delegate("a"), complete()], work)
    state = loop.run()
    assert sorted(each.worker for each in orders[:2]) == ["test-h1", "test-h2"]
    assert not any(each.may_create_tools for each in orders[:2])
    assert "read it again" in next(each.instructions for each in orders if each.worker == "test-h1")
    assert [each.status for each in state.hypotheses] == ["confirmed", "refuted"]
    assert [each.iteration for each in state.history] == [2]  # neither the summary nor the stall detector saw them
    model = loop.means.manager
    assert isinstance(model, Scripted)
    assert "[confirmed] h1: a typo" in prompt_of(model.requests[1])


def test_two_hypotheses_of_one_name_are_tested_by_workers_of_two() -> None:
    twice = json.dumps({"decision": "diagnose", "hypotheses": [{"id": "h", "cause": "x"}, {"id": "h", "cause": "y"}]})
    loop = a_loop([twice, complete()], found)
    loop.run()
    assert sorted(each.worker for each in events_of(loop.journal) if each.type == "WorkerReturned") == [
        "test-h",
        "test-h-2",
    ]


def test_a_manager_is_told_how_many_of_its_delegations_did_not_run() -> None:
    loop = a_loop([delegate(*"abcde"), complete()], found, a_journal(limits(max_workers_per_iteration=2)))
    loop.run()
    model = loop.means.manager
    assert isinstance(model, Scripted)
    assert "3 delegations did not run" in prompt_of(model.requests[1])
    assert loop.journal.budget.spent.workers == 2


def test_a_plan_is_not_got_round_by_leaving_out_the_subtask() -> None:
    merge = {"id": "merge", "description": "2", "dependencies": ["load"]}
    plan = {"decision": "plan", "subtasks": [{"id": "load", "description": "1"}, merge]}
    loop = a_loop([json.dumps(plan), delegate("merge_v2"), delegate("load"), delegate("merge"), complete()], found)
    state = loop.run()
    assert state.decisions[1].refusal.startswith("the plan is not that far: merge")
    assert [each.status for each in state.plan] == ["completed", "completed"]


def test_the_same_words_about_another_result_are_another_delegation() -> None:
    seeing = delegate("a", inherited_state_keys=["a"])
    loop = a_loop(
        [seeing, seeing, delegate("a"), '{"decision": "fail"}'], lambda _o, _d: {"error": "no table", "confidence": 0.1}
    )
    refusals = [each.refusal for each in loop.run().decisions]
    assert refusals[1] == ""  # it sees what the first one left, which the first one did not
    assert refusals[2].startswith("the same delegation was made before")


@pytest.mark.parametrize(("differs", "attempts"), [(False, 2), (True, 4)])
def test_a_repair_that_repeats_itself_is_not_tried_again(differs: bool, attempts: int) -> None:
    said: list[str] = []
    words = ["ships and sails", "apples or trees", "stars above mountains", "letters from Paris"]

    def work(order: WorkOrder, _desk: WorkDesk) -> dict[str, Any]:
        said.append(order.instructions)
        return {"findings": f"TODO {words[len(said) - 1 if differs else 0] * 9}", "confidence": 0.5}

    config = LoopConfig(critique=CritiqueConfig(max_repair_attempts=3))
    loop = a_loop([delegate("a"), '{"decision": "fail"}'], work, a_journal(config))
    loop.run()
    assert len(said) == attempts
    assert "Repair these defects" in said[-1]


def test_a_subtask_that_five_tries_did_not_complete_goes_to_a_submanager() -> None:
    plan = json.dumps({"decision": "plan", "subtasks": [{"id": "hard", "description": "it"}]})

    def say(request: CompletionRequest) -> str:
        prompt = prompt_of(request)
        if "try hard" in prompt.partition("## Budget")[0]:
            return complete("part")
        iteration = int(prompt.partition("## Current Iteration\n")[2].split()[0])
        return plan if iteration == 1 else delegate("hard", instructions=f"try {'hard ' * iteration}")

    config = limits(max_loops=40).model_copy(update={"stall_detection": StallDetectionConfig(enabled=False)})
    loop = a_loop(say, lambda o, _d: {"findings": o.instructions, "confidence": 0.1}, a_journal(config))
    while len([each for each in events_of(loop.journal) if each.type == "WorkerReturned"]) < 6:
        loop._step()
    returned = [each for each in events_of(loop.journal) if each.type == "WorkerReturned"]
    assert [each.child is None for each in returned] == [True] * 5 + [False]
    assert loop.journal.state.plan[0].status == "completed"
