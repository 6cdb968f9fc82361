"""Plans as suites on the wire, and back."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from agents.rollouts.sweep import SeedSweep
from agents.suites.errors import MicroSuiteRefused
from agents.suites.micro_suite import build_micro_suite, plan_of, suite_of
from benchmarks.shipped import PLANS, template
from eventlog.chain import canonical
from eventlog.events import Step

OPEN = Step(type="navigate", intent="open", url="/boats")
PLAN = PLANS["marketplace.phone_reveal"]


@pytest.mark.parametrize("task", sorted(PLANS))
def test_every_plan_goes_over_the_wire_and_comes_back(task: str) -> None:
    suite = json.loads(json.dumps(build_micro_suite(PLANS[task], "marketplace")))
    assert plan_of(suite) == PLANS[task]


def test_a_suite_has_every_field_of_the_wire_with_its_default() -> None:
    suite = build_micro_suite([OPEN], "boats")
    intent = {
        "intent": "open",
        "type": "navigate",
        "verify": "",
        "budget": 5,
        "reverse": "",
        "grounding": False,
        "claude_only": False,
        "loop_target": -1,
        "loop_count": 0,
        "section": "",
        "required": False,
        "gate": False,
        "params": {"url": "/boats"},
        "hints": {},
        "guard": "",
        "out_var": "",
        "stop_var": "",
        "extract": {},
    }
    assert suite == {
        "session_name": "micro_boats",
        "base_url": "",
        "_max_cost": 10,
        "_max_time_minutes": 180,
        "_resume_state": False,
        "_profile_id": "",
        "_workflow_id": "",
        "_state_key": "",
        "_plan_signature": hashlib.sha256(canonical([intent])).hexdigest(),
        "_micro_plan": [intent],
        "tasks": [],
    }


def test_the_signature_is_of_the_steps_alone() -> None:
    one = build_micro_suite(PLAN, "boats")
    other = build_micro_suite(PLAN, "elsewhere", max_cost=2, workflow_id="w", group_id="g", temperature_micro=700_000)
    changed = build_micro_suite([*PLAN[:-1], OPEN], "boats")
    assert one["_plan_signature"] == other["_plan_signature"] != changed["_plan_signature"]
    assert (other["_max_cost"], other["_sampling_temperature"], other["_fanout_group_id"]) == (2, 0.7, "g")


def test_each_rollout_has_a_workflow_of_its_own_and_its_groups_id() -> None:
    made = template("marketplace.phone_reveal", "Show the number.")
    specs = SeedSweep("s1", [made], [1, 2], 2).specs()
    suites = [suite_of(spec, made.plan_steps, "marketplace") for spec in specs]
    assert [suite["_workflow_id"] for suite in suites] == [f"sweep-{spec.spec_id}" for spec in specs]
    assert [suite["_profile_id"] for suite in suites] == [f"sweep-{spec.spec_id}" for spec in specs]
    assert [suite["_fanout_group_id"] for suite in suites] == [spec.group_id for spec in specs]
    assert len({suite["_plan_signature"] for suite in suites}) == 1


def test_the_rollouts_of_a_session_share_a_profile_and_no_workflow() -> None:
    made = template("marketplace.phone_reveal", "Show the number.")
    specs = [spec.model_copy(update={"state_key": "alex"}) for spec in SeedSweep("s1", [made], [1, 2]).specs()]
    suites = [suite_of(spec, made.plan_steps, "marketplace") for spec in specs]
    assert {(suite["_profile_id"], suite["_state_key"]) for suite in suites} == {("alex", "alex")}
    assert len({suite["_workflow_id"] for suite in suites}) == 2


@pytest.mark.parametrize("kind", ["click_at", "press_key", "scroll", "finish"])
def test_a_policys_own_steps_are_in_no_suite(kind: Any) -> None:
    with pytest.raises(MicroSuiteRefused, match=kind):
        build_micro_suite([OPEN, Step(type=kind, intent="x")], "boats")


def signed(*intents: dict[str, Any]) -> dict[str, Any]:
    """A suite that others made of these intents."""
    micro = list(intents)
    return {
        "session_name": "micro_x",
        "_plan_signature": hashlib.sha256(canonical(micro)).hexdigest(),
        "_micro_plan": micro,
        "_plan_hash": "12345678",
        "_max_cost": 2.5,
    }


def test_a_suite_of_others_is_read_with_fields_that_are_not_ours() -> None:
    intent = {"intent": "open", "type": "navigate", "params": {"url": "/boats"}, "condition": "x"}
    assert plan_of(signed(intent)) == (OPEN,)


@pytest.mark.parametrize(
    ("suite", "what"),
    [
        ({}, "Field required"),
        (signed({"intent": "x", "type": "loop"}), "step 0 is 'loop'"),
        (signed({"type": "click"}), "intent"),
        (signed({"intent": "x", "type": "click", "params": {"label": 3}}), "label"),
        (signed({"intent": "x", "type": "click", "params": {"by": "css"}}), "by"),
        ({**signed({"intent": "x", "type": "click"}), "_plan_signature": "0" * 64}, "signature"),
    ],
)
def test_what_is_no_plan_of_ours_is_refused_and_named(suite: dict[str, Any], what: str) -> None:
    with pytest.raises(MicroSuiteRefused, match=what):
        plan_of(suite)
