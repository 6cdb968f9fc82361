"""A run on a real site, every step checked: by the site's record without a model, by a model where it is hidden."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import pytest

from agents.envs.clients.client import EnvClient
from agents.envs.clients.mutations import fetch_mutations, grade_run
from agents.envs.clients.pages import Page
from agents.envs.clients.session import Session
from agents.envs.contract import Instance
from agents.envs.provider import Site
from agents.envs.sites.marketplace.drift import CANONICAL, drift_family
from agents.learning.step_checks import (
    Checked,
    ModelVerifier,
    OracleVerifier,
    StepObservation,
    StepVerifier,
    verifier_for,
    verify_observation,
)
from agents.models.scripted import Scripted
from agents.rewards import Grading, GymResult, Info, RunResult, SyntheticEnvReward, returns
from benchmarks.shipped import OPERATIONS, PLANS
from eventlog.events import Step
from tests.sites import SharedSite

SEED = next(seed for seed in range(9) if drift_family(seed) is CANONICAL)
TASKS = ["marketplace.lead_filtered_search", "marketplace.phone_reveal"]
"""Tasks whose plans pass on this seed, and whose every change the marketplace's table pays."""
TABLE = OPERATIONS["marketplace"].table


@pytest.fixture(scope="module")
def site(shared_site: SharedSite) -> Site:
    return shared_site("marketplace")


@pytest.fixture
def instance(site: Site) -> Iterator[Instance]:
    with EnvClient(site.admin_url, site.admin_token) as client:
        yield client.reset(SEED)


def by_oracle(site: Site, instance: Instance) -> OracleVerifier:
    return OracleVerifier(
        lambda since: fetch_mutations(site.admin_url, site.admin_token, instance=instance, since_id=since), TABLE
    )


def act(step: Step, page: Page | None, session: Session) -> Page | None:
    """Do one step; the page it led to, if it did."""
    if step.type == "navigate":
        return session.open(step.url or "")
    assert page is not None
    label, value = step.label or "", step.value or ""
    if step.type == "click":
        return session.open(page.link(label).path)
    if step.type == "submit":
        return session.submit(page, label)
    page.fill(label, value) if step.type == "fill_field" else page.choose(label, value)
    return None


def walked(task: str, instance: Instance, verifier: StepVerifier) -> list[tuple[str, str | None, Checked]]:
    """Every step of a task's plan, with its kind and what was said of it."""
    page: Page | None = None
    found = []
    with Session(instance.url) as session:
        for step in PLANS[task]:
            moved = act(step, page, session)
            page = moved or page
            kind = OPERATIONS["marketplace"].kind_of(step.type, step.label)
            status, text = (None, None) if moved is None else (moved.status, moved.text())
            found.append(
                (
                    step.intent,
                    kind,
                    verify_observation(verifier, StepObservation(kind, step.intent, step.intent, status, text)),
                )
            )
    return found


@pytest.mark.parametrize("task", TASKS)
def test_with_a_site_no_model_is_called_and_what_was_checked_is_what_is_paid(
    site: Site, instance: Instance, task: str
) -> None:
    model = Scripted([])
    steps = walked(task, instance, verifier_for(ModelVerifier(model), by_oracle(site, instance)))
    assert len(model.requests) == 0
    assert [checked.said for _, _, checked in steps] == ["passed"] * len(PLANS[task])
    assert {checked.by for _, _, checked in steps} == {"oracle"}
    infos = [
        (intent, GymResult(Info(oracle_step_kind=kind or "", oracle_mutations_delta=checked.delta or ())))
        for intent, kind, checked in steps
    ]
    graded = grade_run(site.admin_url, site.admin_token, task, instance=instance)
    reward = SyntheticEnvReward(expected_ops_by_step_kind=TABLE)
    found = returns(reward, infos, RunResult(), cast("Grading", graded))
    assert found is not None
    assert found.components == {"oracle_step": 100_000, "oracle_score": 1_000_000, "oracle_passed_bonus": 1_000_000}
    assert {(operation, kind) for operation, kind, _ in found.paid} == {(min(TABLE[steps[-1][1] or ""]), "boat")}


def test_without_a_site_a_model_is_called_for_every_step_that_led_to_a_page(instance: Instance) -> None:
    model = Scripted(lambda _: '{"passed": true, "reason": "it shows"}')
    steps = walked(TASKS[0], instance, verifier_for(ModelVerifier(model), None))
    pages = sum(step.type in {"navigate", "click", "submit"} for step in PLANS[TASKS[0]])
    assert len(model.requests) == pages > 0
    assert {checked.by for _, _, checked in steps} == {"model"}


def test_a_step_that_changed_nothing_where_it_should_is_caught_by_the_site(site: Site, instance: Instance) -> None:
    verifier = by_oracle(site, instance)
    with Session(instance.url) as session:
        session.open("/")
    assert (
        verify_observation(
            verifier, StepObservation("submit_lead", "request details", "thanks", 200, "Thank you!")
        ).said
        == "failed"
    )


def test_grading_never_raises(site: Site, instance: Instance) -> None:
    wrong = grade_run(site.admin_url, "0" * 32, TASKS[0], instance=instance)
    unknown = grade_run(site.admin_url, site.admin_token, "no.such", instance=instance)
    no_instance = grade_run(site.admin_url, site.admin_token, TASKS[0])
    gone = grade_run("http://127.0.0.1:1", "token", TASKS[0], timeout_s=0.5)
    for found in (wrong, unknown, no_instance, gone):
        assert found["error"]
        assert "score_micro" not in found
    assert fetch_mutations(site.admin_url, site.admin_token)["error"]
