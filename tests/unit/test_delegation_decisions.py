"""Managers' answers, envelopes and plans: what is read of them, and what is refused."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.delegation.answers import micro_of, recover_object
from agents.delegation.decisions import (
    KINDS,
    CompleteDecision,
    DelegateDecision,
    DiagnoseDecision,
    FailDecision,
    NotADecision,
    PlanDecision,
    decision_schema,
    read_decision,
)
from agents.delegation.envelopes import (
    Envelope,
    assign_subtasks,
    delegation_signature,
    fan_out,
    inherited_state,
    logical_worker,
    read_envelope,
    safe_id,
)
from agents.delegation.plan import (
    PlanStep,
    Subtask,
    actionable,
    blocked_by_plan,
    find_cycle,
    needs_submanager,
    plan_fault,
    read_subtasks,
    status_after,
)

ENVELOPE = {"worker_id": "a", "instructions": "count the lines"}
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)


def said(**facts: Any) -> str:
    return json.dumps(facts)


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (said(decision="delegate", delegations=[ENVELOPE]), DelegateDecision),
        (said(decision="complete", final_result={"answer": "42"}), CompleteDecision),
        (said(decision="plan", subtasks=[{"id": "s1", "description": "first"}]), PlanDecision),
        (said(decision="diagnose", hypotheses=[{"id": "h1", "cause": "a typo"}]), DiagnoseDecision),
        (said(decision="fail", reason="impossible"), FailDecision),
        ("```json\n" + said(decision="fail", reason="no") + "\n```", FailDecision),
        ("Sure: " + said(decision="delegate", delegations=[ENVELOPE]) + " as asked.", DelegateDecision),
        (said(decision="I will delegate this", delegations=[ENVELOPE]), DelegateDecision),
        (said(workers=[{"id": "a", "task": "count"}]), DelegateDecision),
        (said(result=said(decision="fail", reason="x")), FailDecision),
        (said(final_result={"answer": "x"}), CompleteDecision),
        (
            '{"decision":"delegate","delegations":[{"worker_id":"a","instructions":"count"},{"worker_id":"b",',
            DelegateDecision,
        ),
    ],
)
def test_an_answer_is_read_as_the_decision_it_is(answer: str, kind: type) -> None:
    assert isinstance(read_decision(answer), kind)


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "I am done.",
        said(decision="cannot complete", final_result={"answer": "x"}),
        said(decision="not complete"),
        said(decision="I can't finish this"),
        said(decision="never delegate", delegations=[ENVELOPE]),
        said(decision="complete or fail"),
        said(decision="incomplete"),
        said(decision=7),
        said(one="text", two="more text"),  # two keys of content are no completion
        said(delegations=[ENVELOPE], final_result={"answer": "x"}),
        said(decision="delegate", delegations=[{"worker_id": "a"}, {"instructions": "x"}]),
        said(decision="delegate", delegations=[]),
        said(decision="plan", subtasks=[]),
        said(decision="diagnose", hypotheses=[{"id": "h"}]),
        '{"decision":"complete","final_result":{"answer":"it was cut',
        "[" * 100_000,
        "{" * 100_000,
        '{"a":' * 5_000,
    ],
)
def test_what_is_no_decision_is_said_to_be_none(answer: str) -> None:
    with pytest.raises(NotADecision):
        read_decision(answer)


def test_a_decision_that_is_not_offered_is_refused() -> None:
    with pytest.raises(NotADecision, match="not offered"):
        read_decision(said(decision="plan", subtasks=["x"]), ("delegate", "complete", "fail"))


@given(st.one_of(st.text(max_size=300), JSON_VALUES.map(lambda value: json.dumps(value, default=str))))
def test_no_answer_makes_the_reader_fail_otherwise(answer: str) -> None:
    with suppress(NotADecision):
        assert read_decision(answer).kind in KINDS


@given(
    st.fixed_dictionaries(
        {"decision": st.sampled_from(KINDS)},
        optional=dict.fromkeys(
            ("delegations", "final_result", "subtasks", "hypotheses", "confidence", "reasoning", "failed_worker"),
            JSON_VALUES,
        ),
    )
)
def test_hostile_fields_of_a_decision_make_a_decision_or_none(facts: dict[str, Any]) -> None:
    with suppress(NotADecision):
        assert read_decision(json.dumps(facts)).kind == facts["decision"]


def test_the_schema_is_closed_and_offers_what_is_offered() -> None:
    schema = decision_schema(("delegate", "complete")).schema
    assert schema["additionalProperties"] is False
    assert schema["required"] == list(schema["properties"])  # type: ignore[arg-type]
    assert schema["properties"]["decision"]["enum"] == ["delegate", "complete"]  # type: ignore[index, call-overload]


def test_a_manager_under_the_schema_can_say_all_that_an_envelope_reads() -> None:
    shape: Any = decision_schema().schema
    items = shape["properties"]["delegations"]["items"]
    full: dict[str, Any] = {
        "worker_id": "a",
        "instructions": "do",
        "subtask_id": "s",
        "skills": ["csv"],
        "tools_allowed": ["dynamic.sum"],
        "output_contract": {"required_fields": ["table"]},
        "inherited_state_keys": ["b"],
        "codemode": {"tool_creation": False},
        "as_submanager": True,
        "tests_hypothesis": "h",
        "required_tool_invocations": ["dynamic.sum"],
        "temperature": 0.7,
        "submanager_budget_fraction": 0.1,
    }
    assert set(items["properties"]) == set(full)
    found = read_envelope(full)
    assert found is not None
    assert {name for name, value in found if value == Envelope.model_fields[name].default} == set()


@pytest.mark.parametrize(
    ("value", "micro"),
    [
        (0.5, 500_000),
        (1, 1_000_000),
        (7.5, 1_000_000),
        (-3, 0),
        (None, None),
        ("0.9", None),
        (True, None),
        (float("nan"), None),
    ],
)
def test_a_confidence_is_clamped(value: object, micro: int | None) -> None:
    assert micro_of(value) == micro


def test_numbers_that_are_not_finite_make_no_object() -> None:
    assert recover_object('{"a": NaN}') is None
    assert recover_object('{"a": 1e999}') is None


@pytest.mark.parametrize("name", ["../../etc/passwd", "a/b\\c", "x\0y", "  ", ".", "ü" * 300, 5])
def test_names_of_workers_are_no_paths(name: object) -> None:
    found = safe_id(name)
    assert len(found) <= 60
    assert not set("/\\\0 ").intersection(found)
    assert not found.startswith(".")


def test_two_workers_of_one_name_get_names_of_their_own() -> None:
    decision = read_decision(said(decision="delegate", delegations=[ENVELOPE, ENVELOPE]))
    assert isinstance(decision, DelegateDecision)
    assert [each.worker_id for each in decision.delegations] == ["a", "a-2"]


def test_five_envelopes_with_a_cap_of_two_run_two_and_defer_three() -> None:
    envelopes = tuple(Envelope(worker_id=str(n), instructions="x") for n in range(5))
    split = fan_out(envelopes, 2)
    assert (len(split.runs), len(split.deferred)) == (2, 3)


@pytest.mark.parametrize(
    ("worker", "logical"),
    [
        ("parse_repair_retry2", "parse"),
        ("parse_v2", "parse"),
        ("parse_strict_final_run3", "parse"),
        ("parse_subtask_4", "parse"),
        ("_repair", "_repair"),
        ("parse", "parse"),
    ],
)
def test_a_workers_suffixes_are_stripped_but_never_to_nothing(worker: str, logical: str) -> None:
    assert logical_worker(worker) == logical


def test_a_signature_ignores_order_names_and_spaces_and_counts_what_is_inherited() -> None:
    one = Envelope(worker_id="a", instructions="Count  the\nlines")
    other = Envelope(worker_id="b", instructions="count the lines")
    third = Envelope(worker_id="c", instructions="something else")
    assert delegation_signature([one, third]) == delegation_signature([third, other])
    assert delegation_signature([one]) != delegation_signature([third])
    seeing = one.model_copy(update={"inherited_state_keys": ("x", "y")})
    assert delegation_signature([one], {}) == delegation_signature([seeing], {})
    assert delegation_signature([one], {"x": 1}) != delegation_signature([seeing], {"x": 1})
    assert delegation_signature([seeing], {"x": 1, "y": 2}) == delegation_signature([seeing], {"y": 2, "x": 1})


def test_what_a_worker_names_it_sees_and_nothing_else() -> None:
    envelope = Envelope(worker_id="a", instructions="x", inherited_state_keys=("b",))
    assert inherited_state(envelope, {"b": 1, "c": 2}) == {"b": 1}


def test_a_worker_that_is_named_for_a_subtask_has_it() -> None:
    named = [Envelope(worker_id=each, instructions="x") for each in ("load", "load_retry2", "other")]
    stated = Envelope(worker_id="load", instructions="x", subtask_id="merge")
    found = assign_subtasks([*named, stated], ["load", "merge"])
    assert [each.subtask_id for each in found] == ["load", "load", "", "merge"]


def test_an_envelope_takes_its_fields_from_the_names_that_managers_use() -> None:
    found = read_envelope(
        {
            "id": "w 1",
            "task": " do ",
            "output_contract": {"required_fields": ["table"]},
            "codemode": {"tool_creation": False},
            "skills": "csv",
            "as_submanager": True,
        }
    )
    assert found == Envelope(
        worker_id="w_1",
        instructions="do",
        required_fields=("table",),
        may_create_tools=False,
        skills=("csv",),
        as_submanager=True,
    )


@pytest.mark.parametrize(
    ("stated", "read"),
    [(0.7, 700_000), (9, 2_000_000), (-1, 0), ("hot", None), (True, None), (None, None), (float("nan"), None)],
)
def test_a_temperature_is_clamped_and_what_is_no_number_is_left_to_the_configuration(
    stated: object, read: int | None
) -> None:
    found = read_envelope({**ENVELOPE, "temperature": stated})
    assert found is not None
    assert found.temperature == read


def step(name: str, *needs: str, status: Any = "pending", tries: int = 0) -> PlanStep:
    return PlanStep(Subtask(id=name, description=name, dependencies=needs), status, tries)


def test_subtasks_without_ids_are_numbered() -> None:
    assert [each.id for each in read_subtasks(["one", {"description": "two"}, {"id": "c", "task": "three"}])] == [
        "subtask_0",
        "subtask_1",
        "c",
    ]


@pytest.mark.parametrize(
    ("subtasks", "why"),
    [
        ([("a", ["b"]), ("b", ["c"]), ("c", ["a"])], "a -> b -> c -> a"),
        ([("a", ["a"])], "a -> a"),
        ([("a", ["x"])], "x, which is no subtask"),
        ([("a", []), ("a", [])], "twice"),
        ([(str(n), []) for n in range(11)], "at most 10"),
    ],
)
def test_a_plan_that_cannot_be_followed_is_refused(subtasks: list[tuple[str, list[str]]], why: str) -> None:
    plan = tuple(Subtask(id=name, description=name, dependencies=tuple(needs)) for name, needs in subtasks)
    fault = plan_fault(plan, 10)
    assert fault is not None
    assert why in fault.why


def test_a_plan_without_a_circle_has_none() -> None:
    assert find_cycle({"a": [], "b": ["a"], "c": ["a", "b"]}) == ()


def test_dependencies_are_enforced_and_a_failed_subtask_may_be_repeated() -> None:
    steps = (step("a", status="completed"), step("b", "a", status="failed"), step("c", "b"), step("d", "a"))
    assert [each.subtask.id for each in actionable(steps)] == ["b", "d"]
    asked = [Envelope(worker_id=name, instructions="x", subtask_id=name) for name in "abcd"]
    assert [each.worker_id for each in blocked_by_plan(asked, steps)] == ["c"]


def test_a_subtask_is_completed_above_point_three_and_promoted_after_five_tries() -> None:
    assert [status_after(micro) for micro in (300_000, 300_001)] == ["failed", "completed"]
    assert not needs_submanager(step("a", tries=4))
    assert needs_submanager(step("a", tries=5))
    assert not needs_submanager(step("a", status="completed", tries=9))
