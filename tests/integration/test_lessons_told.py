"""The fast loop for a policy: its runs teach lessons in words, trials tell them, and the gate judges what is told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agents.envs.clients.client import EnvClient
from agents.executors.policy import PolicyExecutor
from agents.learning.advice import READERS
from agents.learning.memory import content_reader
from agents.learning.occasions import text_and_change
from agents.models.scripted import Scripted
from agents.rollouts.sweep import SeedSweep
from agents.suites.bundled import bundled_for
from agents.suites.tasks import templates_of
from api.controllers.fast import Controller
from api.history.replay import replay_run
from api.house import House
from api.sweeps.candidates import trial_pool
from api.sweeps.plan import first_facts, plan
from api.sweeps.play import play_sweep
from eventlog.events import (
    EvaluationOpened,
    FollowLink,
    HintRecorded,
    PairedRule,
    PieceTried,
    Template,
)
from projections.memories import candidacies
from projections.rewards import REWARDS
from projections.runs import RUNS
from tests.admitted import admitted
from tests.followers import Follower
from tests.golden.make import Quiet
from tests.integration.test_helpdesk_loop import COURSE as HELPDESK
from tests.promoted import promote_rewrite
from tests.recomputing import every_verdict_recomputes

COURSE = replace(HELPDESK, seeds_per_round=4, sealed_seeds=tuple(range(10_000, 10_006)))


def task_of(client: EnvClient) -> tuple[Template, ...]:
    health = client.health()
    suite = bundled_for(health.site)
    assert suite is not None
    return tuple(each for each in templates_of(suite, health.site, health.tasks) if each.cluster == "navigation")


def follower(client: EnvClient, explores: float = 0.0) -> PolicyExecutor:
    (task,) = task_of(client)
    return PolicyExecutor(Scripted(Follower(task.plan_steps, task.instruction, explores)))


@pytest.mark.costly("the loop of a policy from its failures to a verdict: rounds, trials and both arms over HTTP")
def test_a_policy_is_cured_by_what_recovery_says_in_words(empty_house: House, helpdesk: EnvClient) -> None:
    house, executor = empty_house, follower(helpdesk)
    admitted(house.store, "helpdesk")
    said = Controller(house, helpdesk, "helpdesk", COURSE, Quiet(), executor).run()
    assert said == "eval-1 was decided: promote"
    assert every_verdict_recomputes(house) == 1
    promoted = {name: state for name, state in candidacies(house.views()).items() if state.status == "promoted"}
    hints = [item.event for item in house.store.read(types=["HintRecorded"])]
    assert all(isinstance(event, HintRecorded) and event.occasion.cluster == "navigation" for event in hints)
    assert promoted
    tried = [item.event for item in house.store.read(types=["PieceTried"])]
    assert all(isinstance(event, PieceTried) and event.env_seed is not None for event in tried)
    (opened,) = [item.event for item in house.store.read(types=["EvaluationOpened"])]
    assert isinstance(opened, EvaluationOpened)
    assert (opened.executor, opened.champion.weights, opened.challenger.weights) == ("policy", "base", "base")
    arms = {name: run.applied for name, run in house.views().find(RUNS, "eval-1__").items()}
    told = {frozenset(each) for each in arms.values()}
    assert told == {frozenset(), frozenset(promoted)}
    (arm, *_) = (name for name, applied in arms.items() if applied)
    assert replay_run(house.store, house.blobs, house.views, arm).divergence is None


def test_a_policys_run_replays_without_a_model_and_without_a_site_and_shows_what_is_told_otherwise(
    empty_house: House, helpdesk: EnvClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = empty_house
    first_facts(house)
    (task,) = task_of(helpdesk)
    sweep = plan(
        house,
        house.views(),
        "helpdesk",
        SeedSweep("s1", [task], [1, 2], 2),
        rng_seed=1,
        executor=follower(helpdesk, 0.5),
    )
    play_sweep(house, helpdesk, sweep, COURSE, Quiet(), follower(helpdesk, 0.5))
    found = [replay_run(house.store, house.blobs, house.views, spec.spec_id) for spec in sweep.specs]
    assert [each.divergence for each in found] == [None] * 4
    in_order = {"calls in order", "tokens", "steps in order"}
    played = {"memory", "plan", "told", "calls", "steps", "end", "state", "grade", "reward"}
    assert set(found[0].compared) == in_order | played
    first = sweep.specs[0].spec_id
    with monkeypatch.context() as changed:
        changed.setattr("agents.executors.policy.REPEATS", 1)
        other = replay_run(house.store, house.blobs, house.views, first)
    assert other.divergence is not None
    assert other.divergence.where == "the calls"
    monkeypatch.setattr("agents.executors.policy._news", lambda *_: "Nothing.")
    other = replay_run(house.store, house.blobs, house.views, first)
    assert other.divergence is not None
    assert (other.divergence.where, other.divergence.actual) == ("call 1", ("message 3, user: Nothing.",))
    assert other.divergence.expected == ("message 3, user: <page>",)


def test_what_was_promoted_for_plans_becomes_a_candidate_in_words_after_a_policy_failed(
    empty_house: House, helpdesk: EnvClient
) -> None:
    house = empty_house
    first_facts(house)
    (task,) = task_of(helpdesk)
    step = next(each for each in task.plan_steps if each.type == "navigate")
    promote_rewrite(house, step, FollowLink(page="/", label="Where tickets are"))
    sweep = plan(
        house, house.views(), "helpdesk", SeedSweep("s1", [task], [1, 2], 2), rng_seed=1, executor=follower(helpdesk)
    )
    play_sweep(house, helpdesk, sweep, replace(COURSE, rule=PairedRule()), Quiet(), follower(helpdesk))
    assert not any(run.passed for run in house.views().find(REWARDS, "s1__").values())
    hints = [each.event for each in house.store.read(types=["HintRecorded"]) if isinstance(each.event, HintRecorded)]
    said = {text_and_change(house.blobs.get(each.content).body)[0]: each for each in hints}
    (text,) = (text for text in said if "Where tickets are" in text)
    hint = said[text]
    assert ", then follow the link 'Where tickets are', not: open /" in text
    assert (hint.occasion.cluster, hint.source, hint.rule) == ("navigation", "recovery", PairedRule())
    pool = trial_pool(house.views(), content_reader(house.blobs)).among([task], "helpdesk", READERS)
    assert hint.hint in pool.names
