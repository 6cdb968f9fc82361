"""The plans of an evaluation: where they come from when it is opened, and that they are read from there afterwards."""

from __future__ import annotations

import pytest

from agents.models.scripted import Scripted
from agents.rollouts.arms import plan_suite, planned_templates
from agents.rollouts.errors import PlanRefused
from agents.suites.bundled import bundled_for
from benchmarks.shipped import PLANS
from eventlog.blobs import MemoryBlobs
from eventlog.events import BenchmarkTemplate, SweepPlanned, Template
from eventlog.store import Position
from tests.unit.test_agent_samples import EMPTY, OPEN, a_store, add
from tests.unit.test_decompose import PLAN, answer

SHIPPED = "marketplace.phone_reveal"
SUITE = bundled_for("marketplace")


def task(oracle: str, max_steps: int = 40) -> BenchmarkTemplate:
    return BenchmarkTemplate(
        template_id=f"t-{oracle}", cluster="c", oracle_task_id=oracle, instruction="Search.", max_steps=max_steps
    )


def test_a_plan_is_shipped_or_made_of_the_instruction_once() -> None:
    store, blobs, model = a_store(), MemoryBlobs(), Scripted([answer(*PLAN)])
    templates = (task(SHIPPED), task("theirs"))
    suite = plan_suite(templates, "site", store, blobs, model, SUITE)
    assert plan_suite(templates, "site", store, blobs, Scripted([]), SUITE) == suite
    found = planned_templates(templates, suite, store, blobs, Position(1))
    assert {name: each.plan_steps for name, each in found.items()} == {
        "t-marketplace.phone_reveal": PLANS[SHIPPED],
        "t-theirs": PLAN,
    }
    assert found["t-theirs"].model_dump(exclude={"plan_text", "plan_steps"}) == templates[1].model_dump()


def test_a_plan_that_is_longer_than_its_budget_is_refused() -> None:
    store, blobs, model = a_store(), MemoryBlobs(), Scripted([answer(*PLAN)])
    with pytest.raises(PlanRefused, match="it has 2 steps; expected at most 1, the max_steps of t-theirs"):
        plan_suite([task("theirs", max_steps=1)], "site", store, blobs, model)


def test_without_a_suite_plans_are_those_that_were_swept_before_the_evaluation() -> None:
    store = a_store()
    for name, plan in (("s1", (OPEN,)), ("s2", PLAN), ("s3", (OPEN, OPEN))):
        template = Template(template_id="t-a", cluster="c", oracle_task_id="a", instruction="", plan_steps=plan)
        sweep = SweepPlanned(
            sweep=name, environment="site", templates=(template,), specs=(), artifact=EMPTY, rng_seed=7
        )
        add(store, f"sweep/{name}", sweep)
    found = planned_templates([task("a"), task("b")], (), store, MemoryBlobs(), Position(2))
    assert {name: each.plan_steps for name, each in found.items()} == {"t-a": PLAN}
