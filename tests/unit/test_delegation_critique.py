"""Critiques by a model: how they are asked for and read, what they cost, what recurs, when a diagnosis is suggested."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agents.delegation.critic import critique_schema, read_critique
from agents.delegation.critique import critique, recurring_defects
from agents.delegation.prompts import WorkOrder
from agents.executors.delegation.loop import DelegationLoop, LoopMeans
from agents.executors.delegation.sandbox import NoSandbox
from agents.executors.delegation.workers import FunctionWorker, WorkDesk
from agents.models.errors import ModelUnreachable
from agents.models.scripted import Scripted
from eventlog.events import CritiqueConfig, LoopConfig, PlanningConfig
from projections.delegation.loop_state import Delegated
from tests.looping import a_journal, a_loop, complete, delegate, events_of, prompt_of

MICRO = 1_000_000
FAIL = '{"decision": "fail"}'
GOOD = json.dumps({"score": 0.9, "summary": "fine", "defects": [], "prescriptions": []})


def bad(category: str = "hallucinated", severity: str = "critical", location: str = "findings") -> str:
    """A critic's answer with one defect."""
    defect = {"category": category, "location": location, "description": "no such city", "severity": severity}
    return json.dumps({"score": 0.2, "summary": "", "defects": [defect], "prescriptions": ["name a real city"]})


def judged(critic: Any, script: Any = None, config: LoopConfig | None = None, work: Any = None) -> DelegationLoop:
    """A loop with a critic, after its end."""

    def answer(order: WorkOrder, _desk: WorkDesk) -> dict[str, Any]:
        return {"findings": "Paris" if "Repair" in order.instructions else "Atlantis", "confidence": 0.8}

    means = LoopMeans(
        Scripted(script or [delegate("a"), complete()]), FunctionWorker(work or answer), NoSandbox(), critic=critic
    )
    loop = DelegationLoop(a_journal(config), means)
    loop.run()
    return loop


def returned(loop: DelegationLoop) -> Any:
    return next(event for event in events_of(loop.journal) if event.type == "WorkerReturned")


def test_a_model_finds_what_no_rule_sees_and_the_gate_reads_its_critique_after_the_repair() -> None:
    critic = Scripted([bad(), GOOD])
    loop = judged(critic)
    found = returned(loop)
    assert loop.journal.state.status == "complete"
    assert (found.critic, found.critique, found.repairs, found.defects) == ("model", 900_000, 1, ())
    assert "no such city" in critic.requests[0].messages[1].text or "Atlantis" in critic.requests[0].messages[1].text
    assert found.critique_tokens > 0
    assert loop.journal.budget.spent.tokens >= found.critique_tokens


def test_a_weak_result_that_no_repair_mends_is_rejected_by_the_critique_gate() -> None:
    script = iter([delegate("a"), complete(), FAIL])
    loop = judged(Scripted(lambda _r: bad()), lambda _r: next(script))
    found = returned(loop)
    assert [each.category for each in found.defects] == ["hallucinated"]
    (rejected,) = [event for event in events_of(loop.journal) if event.type == "CompletionRejected"]
    assert rejected.gate == "critique"


def test_an_answer_that_is_no_critique_is_clarified_once_and_then_rules_judge() -> None:
    mended = Scripted(["hm", GOOD])
    assert returned(judged(mended)).critic == "model"
    assert "holds no critique" in mended.requests[1].messages[-1].text
    hopeless = Scripted(lambda _r: "hm")
    assert returned(judged(hopeless)).critic == "rules"
    assert len(hopeless.requests) == 2


def test_a_critic_that_is_gone_leaves_the_judgement_to_the_rules() -> None:
    def gone(_request: Any) -> str:
        raise ModelUnreachable(url="x", actual="down", tries=1, timeout_s=1)

    loop = judged(Scripted(gone))
    assert (loop.journal.state.status, returned(loop).critic, returned(loop).critique) == ("complete", "rules", MICRO)


@pytest.mark.parametrize("critique_config", [CritiqueConfig(mode="rules"), CritiqueConfig(repair_budget_fraction=0)])
def test_no_model_is_asked_where_rules_judge_or_nothing_may_be_spent(critique_config: CritiqueConfig) -> None:
    critic = Scripted([GOOD])
    found = returned(judged(critic, config=LoopConfig(critique=critique_config)))
    assert (found.critic, found.critique_tokens, critic.requests) == ("rules", 0, ())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "fine",
        "{}",
        '{"score": "high", "defects": []}',
        '{"score": 0.5}',
        '{"score": 0.5, "defects": {}}',
        '{"score": 0.5, "defects": [{"category"',
    ],
)
def test_what_is_no_critique_is_read_as_none(text: str) -> None:
    assert read_critique(text, critique({"findings": "x"}, (), MICRO), {"findings": "x"}) is None


def test_a_model_cannot_talk_away_what_rules_found_nor_miss_what_is_there() -> None:
    result = {"findings": "TODO", "table": [1]}
    by_rules = critique(result, ("table",), MICRO)
    found = read_critique(GOOD, by_rules, result)
    assert found is not None
    assert (found.score, found.is_critical) == (by_rules.score, True)
    unsure = critique({"findings": "x", "note": " "}, (), 0)
    raised = read_critique(GOOD, unsure, {"findings": "x"})
    assert raised is not None
    assert (unsure.is_critical, unsure.score, raised.score) == (False, 700_000, 700_000)
    sound = critique({"table": [1]}, ("table",), MICRO)
    missing = read_critique(bad("missing_data", location="table"), sound, {"table": [1]})
    assert missing is not None
    assert [each.severity for each in missing.defects] == ["info"]
    strange = json.dumps({"score": 7, "defects": [7, {"category": "x", "severity": "y"}, None], "prescriptions": 7})
    odd = read_critique(strange, sound, {})
    assert odd is not None
    assert (odd.score, odd.defects, odd.prescribed) == (MICRO, (), ())


def test_a_critics_schema_is_closed() -> None:
    shape: Any = critique_schema().schema
    assert shape["additionalProperties"] is False
    assert shape["required"] == ["score", "summary", "defects", "prescriptions"]


def test_a_tool_that_had_to_be_called_and_was_not_is_a_critical_defect() -> None:
    loop = judged(None, [delegate("a", required_tool_invocations=["dynamic.sum"]), FAIL])
    found = returned(loop)
    assert [each.category for each in found.defects] == ["unused_required_tool"]
    assert found.critique == 300_000


def after(*iterations: tuple[tuple[str, ...], int], planned: int | None = None) -> list[Delegated]:
    """A history of delegations: the categories of each, all critical, and its mean critique."""
    return [
        Delegated(iteration=n, confidence=0, critiques=(score,), defects=found, critical=found, planned=planned)
        for n, (found, score) in enumerate(iterations, 1)
    ]


def test_a_category_counts_until_a_good_iteration_without_it_and_what_is_incomplete_by_the_plan() -> None:
    config, weak = CritiqueConfig(), (("stale",), 100_000)
    assert recurring_defects(after(weak, weak), config) == {"stale": 2 * MICRO}
    assert recurring_defects(after(weak, ((), 200_000), weak), config) == {"stale": 2 * MICRO}
    assert recurring_defects(after(weak, ((), 700_000), weak), config) == {"stale": MICRO}
    early = after(*[(("incomplete",), 0)] * 5, planned=0)
    assert recurring_defects(early, config) == {"incomplete": MICRO}
    late = after(*[(("incomplete",), 0)] * 2, planned=MICRO)
    assert recurring_defects(late, config) == {"incomplete": 2 * MICRO}
    assert recurring_defects(early, CritiqueConfig(phase_aware_incomplete=False)) == {"incomplete": 5 * MICRO}


def test_defects_that_recur_are_told_to_the_manager_and_end_the_loop_at_the_cap() -> None:
    numbers = iter(range(99))
    loop = judged(
        Scripted(lambda _r: bad()),
        lambda _r: delegate(f"w{next(numbers)}"),
        LoopConfig(convergence=False),
        work=lambda _o, _d: {"findings": f"city {next(numbers)}", "confidence": 0.8},
    )
    state = loop.journal.state
    assert (state.status, state.reason, state.iteration) == ("partial_complete", "defect_category_cap: hallucinated", 5)
    model = loop.means.manager
    assert isinstance(model, Scripted)
    told = ["hallucinated" in prompt_of(each) for each in model.requests]
    assert told == [False, False, False, True, True]
    assert "a diagnosis is suggested" in prompt_of(model.requests[3])


def test_what_a_critic_only_notes_recurs_in_no_count() -> None:
    for severity, counted in (("info", ()), ("warning", ("stale",))):
        loop = judged(Scripted([bad("stale", severity)]), [delegate("a"), FAIL])
        assert [each.severity for each in returned(loop).defects] == [severity]
        (done,) = loop.journal.state.history
        assert (done.defects, done.critical) == (counted, ())


@pytest.mark.parametrize(
    ("confidence", "planning", "suggested"),
    [
        (0.29, PlanningConfig(), True),
        (0.3, PlanningConfig(), False),
        (0.1, PlanningConfig(diagnosis=False), False),
        (0.1, PlanningConfig(diagnose_below=0), False),
    ],
)
def test_a_diagnosis_is_suggested_after_a_worker_that_is_hardly_sure(
    confidence: float, planning: PlanningConfig, suggested: bool
) -> None:
    config = LoopConfig(planning=planning)
    loop = a_loop(
        [delegate("a", "b"), FAIL],
        lambda o, _d: {"findings": o.worker, "confidence": confidence if o.worker == "b" else 0.9},
        a_journal(config),
    )
    loop.run()
    model = loop.means.manager
    assert isinstance(model, Scripted)
    hint = f"a diagnosis is suggested before more of the same is delegated (the confidence of b is {confidence:.2f})"
    assert (hint in prompt_of(model.requests[1])) == suggested
