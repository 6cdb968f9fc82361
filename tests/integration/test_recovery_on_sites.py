"""Recovery on our sites, served in processes of their own: what it proposes of a failed run cures fresh instances."""

from __future__ import annotations

import json

import pytest
from pydantic import TypeAdapter

from agents.envs.clients.client import EnvClient
from agents.learning.piece_content import MEDIA_TYPE
from agents.learning.recovery.budgets import BUDGETS
from agents.plans import Piece, anchor_of
from agents.rollouts.play import Job, Means, Played, play
from agents.rollouts.record import stopwatch
from benchmarks.shipped import template
from eventlog.events import Change, HintRecorded, RecoveryDecided, RewardGraded, SeedsRule, Spec, Template
from tests.unit.test_agent_samples import BOOK, EMPTY

CHANGE: TypeAdapter[Change] = TypeAdapter(Change)
SEALED = range(10_000, 10_006)
CURED = {
    "marketplace.lead_filtered_search": "follow_link",
    "marketplace.phone_reveal": "follow_link",
    "marketplace.engine_spec": "prefer_target",
    "marketplace.phone_after_contact": "insert_steps",
    "helpdesk.triage_inbox": "follow_link",
    "helpdesk.macro_reply": "insert_steps",
}
UNCURED = ("marketplace.control_draw", "helpdesk.control_callback")


@pytest.fixture(scope="module")
def clients(marketplace: EnvClient, helpdesk: EnvClient) -> dict[str, EnvClient]:
    return {"marketplace": marketplace, "helpdesk": helpdesk}


def tasked(clients: dict[str, EnvClient], task: str) -> tuple[Template, Means]:
    client = clients[task.partition(".")[0]]
    instructions = {each.task_id: each.instruction for each in client.health().tasks}
    return template(task, instructions[task]), Means(client, BOOK, SeedsRule(), stopwatch)


def played(task: Template, means: Means, seed: int, *pieces: Piece, learns: bool = False) -> Played:
    name = task.template_id
    spec = Spec(spec_id=f"s__{name}__{seed}", template=name, env_seed=seed, group_id="g", sibling_index=0, sweep="s")
    return play(Job(spec, task, name.partition(".")[0], EMPTY, pieces, None, None, learns), means)


def passed(of: Played) -> bool:
    return next(event.passed for event in of.events if isinstance(event, RewardGraded))


def first_failure(task: Template, means: Means) -> Played:
    """A run that failed, looked over. The seed is the first of those for training in which the frozen plan fails."""
    return next(run for run in (played(task, means, seed, learns=True) for seed in range(20)) if not passed(run))


def pieces(task: Template, run: Played) -> list[Piece]:
    """What recovery proposed, at the steps that it is for."""
    contents = {blob.digest: blob for blob in run.blobs if blob.media_type == MEDIA_TYPE}
    found = []
    for event in run.proposals:
        if isinstance(event, HintRecorded):
            change = CHANGE.validate_json(_inner(contents[event.content].body))
            step = next(each for each in task.plan_steps if each.intent == event.occasion.intent)
            found.append(Piece(event.hint, anchor_of(step), change, 0, 0, "hint"))
        else:
            found.append(Piece(event.rewrite, event.anchor, event.change, 0, 0))
    return found


def _inner(content: bytes) -> bytes:
    return json.dumps(json.loads(content)["change"]).encode()


@pytest.mark.parametrize("name", CURED)
def test_what_recovery_proposes_has_a_cure_that_works_in_instances_that_nobody_learned_from(
    name: str, clients: dict[str, EnvClient]
) -> None:
    task, means = tasked(clients, name)
    found = first_failure(task, means)
    proposed = [each for each in pieces(task, found) if each.change.kind == CURED[name]]
    cures = [each for each in proposed if all(passed(played(task, means, seed, each)) for seed in SEALED)]
    assert len(cures) == 1
    assert not all(passed(played(task, means, seed)) for seed in SEALED)


@pytest.mark.parametrize("name", CURED)
def test_every_recovery_keeps_to_its_budgets_and_says_what_it_tried(name: str, clients: dict[str, EnvClient]) -> None:
    task, means = tasked(clients, name)
    run = first_failure(task, means)
    decided = [event for event in run.events if isinstance(event, RecoveryDecided)]
    names = [piece for event in decided for piece in event.proposed]
    assert sorted(names) == sorted(each.piece for each in pieces(task, run))
    assert 1 <= len(names) <= BUDGETS.per_run
    for place in range(len(task.plan_steps)):
        assert sum(len(event.proposed) for event in decided if event.step == place) <= BUDGETS.per_step
    assert all(event.tried >= len(event.proposed) for event in decided)


@pytest.mark.parametrize("name", UNCURED)
def test_where_chance_alone_decides_recovery_halts(name: str, clients: dict[str, EnvClient]) -> None:
    task, means = tasked(clients, name)
    run = first_failure(task, means)
    decided = [event for event in run.events if isinstance(event, RecoveryDecided)]
    assert run.proposals == ()
    assert [(event.mode, event.proposed) for event in decided] == [("halt", ())]


def test_a_run_that_may_not_learn_is_not_looked_over(clients: dict[str, EnvClient]) -> None:
    task, means = tasked(clients, UNCURED[0])
    runs = [played(task, means, seed) for seed in range(4)]
    assert not all(map(passed, runs))
    assert all(event.type != "RecoveryDecided" for run in runs for event in run.events)
