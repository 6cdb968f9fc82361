"""A site of others, served by a pool of processes: isolated, seeded, and its admin surface out of the agents' reach."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from agents.envs.clients.compact import compact_view
from agents.envs.clients.controls import controls
from agents.envs.clients.session import Session
from agents.envs.contract import Graded, Instance
from agents.envs.errors import EnvironmentDown, InstanceClosed, NotSeedable, TaskNotGraded
from agents.envs.foreign.dialect import Dialect
from agents.envs.page_proxy import is_admin_path
from agents.envs.pool import PoolCommand, PooledSite, pooled_site
from agents.envs.probing.probes import PROBES, run_probe
from agents.envs.provider import Site
from agents.executors.inspection import HttpInspector
from agents.executors.plan import execute
from agents.learning.recovery.failing import failed_run
from agents.learning.recovery.recover import recover
from agents.plans import Overlaid, Piece, Plan, apply_overlay
from api.environments.admission import target_at
from api.environments.connect import Placed
from eventlog.events import Step
from tests.chandlery import TASK

DIALECT = Dialect.model_validate(
    {
        "site": "chandlery",
        "tasks": [{"task_id": TASK, "instruction": "Order the cheapest rope for the quay, and pay now."}],
        "paths": {"mutations": "/__env__/audit"},
        "row": {"listed": ["audit"]},
    }
)
COMMAND = PoolCommand(
    (sys.executable, "-m", "tests.chandlery", "{port}"), {"SEED": "{seed}"}, folder=Path(__file__).parents[2]
)
PLAN: Plan = (
    Step(type="navigate", intent="open the shop", url="/shop"),
    Step(type="click", intent="take the cheapest", label=" for "),
    Step(type="fill_field", intent="say where to", label="Ship to", value="the quay"),
    Step(type="submit", intent="order it", label="Order"),
)
CURED: Plan = (
    *PLAN[:3],
    Step(type="select_option", intent="agree", label="Terms", value="checked"),
    Step(type="select_option", intent="pay at once", label="Payment", value="Now"),
    PLAN[3],
)


@pytest.fixture(scope="module")
def pool() -> Iterator[PooledSite]:
    with pooled_site("chandlery", COMMAND, DIALECT, processes=2) as site:
        yield site


def played(pool: PooledSite, plan: Plan, instance: Instance) -> Graded:
    with Session(instance.url) as session:
        execute(plan, session, max_steps=20)
    return pool.oracle(instance, TASK)


def test_a_plan_reaches_controls_without_labels_boxes_and_radio_buttons(pool: PooledSite) -> None:
    instance = pool.reset(3)
    assert not played(pool, PLAN, instance).passed
    assert played(pool, CURED, pool.reset(3, instance=instance)).passed
    (ordered, paid) = pool.mutations(instance)
    assert (ordered.operation, paid.operation, ordered.payload) == ("ordered", "paid", {"to": "the quay"})
    pool.close(instance)


def test_half_of_a_task_scores_and_does_not_pass(pool: PooledSite) -> None:
    instance = pool.reset(3)
    half = played(pool, (*PLAN[:3], CURED[3], PLAN[3]), instance)
    assert (half.passed, half.score_micro) == (False, 500_000)
    pool.close(instance)


def test_instances_side_by_side_share_nothing_and_end_with_their_close(pool: PooledSite) -> None:
    one, two = pool.reset(3), pool.reset(3)
    assert pool.state(one).fingerprint == pool.state(two).fingerprint
    assert played(pool, CURED, one).passed
    assert pool.mutations(two) == ()
    pool.close(two)
    pool.close(one)
    with pytest.raises(InstanceClosed):
        pool.oracle(one, TASK)


def test_the_admin_surface_is_out_of_the_agents_reach_and_links_lead_back_to_the_proxy(pool: PooledSite) -> None:
    instance = pool.reset(4)
    with httpx2.Client(trust_env=False) as web:
        for path in ("__env__/health", "__ENV__/state", "%5f_env__/oracle", "x/../__env__/audit", "/__env__/reset"):
            assert web.get(f"{instance.url}{path}").status_code == 404
            assert web.post(f"{instance.url}{path}").status_code == 404
    with Session(instance.url) as session:
        page = session.open("/")
        assert session.open(page.link("Shop").path).status == 200
    pool.close(instance)


@pytest.mark.parametrize(("target", "is_one"), [("/__env__", True), ("//__env__//x?y", True), ("/a__env__/x", False)])
def test_an_admin_path_is_known_however_it_is_written(target: str, is_one: bool) -> None:
    assert is_admin_path(target, {"/__env__"}) is is_one


def test_a_policy_sees_every_control_by_its_name(pool: PooledSite) -> None:
    instance = pool.reset(5)
    with Session(instance.url) as session:
        page = session.open(session.open("/shop").links()[1].path)
    assert compact_view(page).splitlines()[-4:] == [
        '[field] Ship to: ""',
        '[choice] Terms: "not checked" of "checked", "not checked"',
        '[choice] Payment: "" of "Later", "Now"',
        "[button] Order",
    ]
    assert [(each.kind, each.label) for each in controls(page)[1:]] == [
        ("field", "Ship to"),
        ("box", "Terms"),
        ("choice", "Payment"),
        ("button", "Order"),
    ]
    pool.close(instance)


def test_recovery_cures_a_plan_of_it_in_one_piece(pool: PooledSite) -> None:
    instance, asked = pool.reset(6), (*PLAN[:3], *CURED[4:])

    def overlay(piece: Piece | None) -> Overlaid:
        return apply_overlay(asked, [] if piece is None else [piece])

    with Session(instance.url) as session:
        ran = execute(asked, session, max_steps=20)
    assert ran.failed_step is not None
    found = recover(
        "run-1", failed_run("chandlery", asked, overlay, ran.failed_step.index, 20), HttpInspector(pool, instance, 0)
    )
    plans = [overlay(each.piece).plan for each in found.proposals]
    assert any(played(pool, plan, pool.reset(6, instance=instance)).passed for plan in plans)
    pool.close(instance)


def test_the_probes_admit_it(pool: PooledSite) -> None:
    target = target_at(Placed(Site("chandlery", pool.admin_url, pool.admin_url, ""), pool, dialect=DIALECT))
    found = {probe.name: run_probe(probe, target) for probe in PROBES if probe.name != "random_agent"}
    assert {name for name, each in found.items() if each.outcome == "skipped"} == {
        "oracle_agent",
        "wrong_token",
        "killed_process",
    }
    assert {name: each.detail for name, each in found.items() if each.outcome == "failed"} == {}


def test_an_unknown_task_is_no_failed_run(pool: PooledSite) -> None:
    instance = pool.reset(0)
    with pytest.raises(TaskNotGraded):
        pool.oracle(instance, "no.such_task")
    pool.close(instance)


def test_a_site_that_ignores_its_seed_and_one_that_does_not_start_are_named() -> None:
    deaf = PoolCommand(COMMAND.words, {"SEED": "7"}, folder=COMMAND.folder)
    with pooled_site("chandlery", deaf, DIALECT) as site:
        site.close(site.reset(1))
        with pytest.raises(NotSeedable, match="seeds 1 and 2"):
            site.reset(2)
    gone = PoolCommand((sys.executable, "-c", "raise SystemExit(3)"))
    with pooled_site("gone", gone, DIALECT) as site, pytest.raises(EnvironmentDown, match="3"):
        site.reset(1)
