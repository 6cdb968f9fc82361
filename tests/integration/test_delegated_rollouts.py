"""Tasks of a suite played by a delegation loop on a real site: what is delegated, recorded, graded and trained on."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest
from starlette.responses import JSONResponse

from agents.envs.clients.client import EnvClient
from agents.envs.provider import Site
from agents.executors.delegation.executor import DelegationExecutor
from agents.executors.delegation.journal import LoopJournal
from agents.executors.policy import PolicyExecutor
from agents.models.model import Completion, CompletionRequest, Offers
from agents.models.openai import OpenAI, OpenAISettings
from agents.models.wire import Patience
from agents.rollouts.play import Means
from agents.rollouts.record import rollout, stopwatch
from api.cli.main import run_command
from api.controllers.delegation import journals_of, offered_skills
from api.datasets import freeze
from api.errors import WrongWay
from api.house import House
from api.settings import Settings
from api.sweeps.executors import Way, executor_of
from eventlog.blobs import MemoryBlobs
from eventlog.events import GrpoQuery, LoopConfig, RewardGraded, RunMissing, SeedsRule
from eventlog.memory import MemoryStore
from projections.rewards import REWARDS
from tests.admitted import admitted
from tests.conftest import Database
from tests.integration.test_policy_rollouts import (
    CANONICAL_SEED,
    DRIFTED_SEED,
    PHONE,
    SERVED,
    events,
    jobs,
    rule,
)
from tests.model_server import LOGPROB, Asked, ModelServer, chat_completion, model_server
from tests.sites import SharedSite
from tests.unit.test_agent_samples import BOOK, a_store, views

SKILL = "# Skill: Phone Numbers\n\n## Purpose\nWhere sellers hide their phone.\n\n" + "open the boat and press " * 8


def manages(asked: Asked) -> str:
    """A manager that delegates the task with a skill of its own, and completes once a worker came back."""
    if not asked.text.startswith("You are the manager"):
        return rule(asked)
    if "Iter 1:" in asked.text:
        return json.dumps({"decision": "complete", "reasoning": "done", "final_result": {"answer": "seen"}})
    task = re.search(r"## Task\n(.*)\n", asked.text)
    told = {"worker_id": "clerk", "instructions": task[1] if task else "", "skills": [SKILL]}
    return json.dumps({"decision": "delegate", "delegations": [told]})


@pytest.fixture(scope="module")
def client(shared_site: SharedSite) -> Iterator[EnvClient]:
    site: Site = shared_site("marketplace")
    with EnvClient(site.admin_url, site.admin_token) as opened:
        yield opened


@pytest.fixture
def host() -> Iterator[ModelServer]:
    with model_server(manages) as opened:
        yield opened


@contextmanager
def means(
    client: EnvClient, host: ModelServer, store: MemoryStore, blobs: MemoryBlobs, **facts: Any
) -> Iterator[Means]:
    """Means of a delegation loop of the model server. `walks` has its workers walk the plan, `bound` adds a schema."""
    walks, bound = facts.pop("walks", False), facts.pop("bound", False)
    wanted = {"model": "m1", "base_url": host.url, "offers_token_ids": True, **facts}
    with closing(OpenAI(OpenAISettings(**wanted), Patience(timeout_s=5.0, tries=2), pause=lambda _: None)) as asked:
        executor = DelegationExecutor(
            PolicyExecutor(Bound(asked) if bound else asked),
            lambda loop: LoopJournal(store, blobs, loop, stopwatch),
            walks=walks,
        )
        yield Means(client, BOOK, SeedsRule(), stopwatch, executor)


@dataclass(frozen=True)
class Bound:
    """A model that draws under the schema of a request."""

    model: OpenAI

    @property
    def name(self) -> str:
        return self.model.name

    @property
    def offers(self) -> Offers:
        return replace(self.model.offers, schema=True)

    def complete(self, request: CompletionRequest) -> Completion:
        return self.model.complete(replace(request, schema=None))


def loop_events(store: MemoryStore, loop: str) -> list[Any]:
    return [recorded.event for recorded in store.read(stream=f"loop/{loop}")]


def test_a_sweep_of_delegated_runs_is_graded_grouped_and_gone_on_with(
    shared_site: SharedSite,
    host: ModelServer,
    empty_database: Database,
    empty_house: House,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    site: Site = shared_site("marketplace")
    admitted(empty_house.store, "marketplace")
    for name, value in {
        "DATABASE_URL": empty_database.app_url,
        "OWNER_URL": empty_database.owner_url,
        "KEYS": str(empty_database.keys),
        "ENV_ADMIN_TOKEN": site.admin_token,
        "MODEL": "m1",
        "MODEL_URL": host.url,
    }.items():
        monkeypatch.setenv(f"FLYWHEEL_{name}", value)
    words = ("--task", PHONE.oracle_task_id, "--seeds", f"{CANONICAL_SEED},{DRIFTED_SEED}", "--siblings", "2")
    at = ("--url", site.url, "--admin-url", site.admin_url, "--json")
    played = ("--sweep", "told", "--executor", "delegation")
    for _ in range(2):  # the second time there is nothing left to play
        code = run_command(["rollout", "sweep", *words, *played, *at])
        printed = capsys.readouterr()
        assert code == 0, printed.err
        found = json.loads(printed.out)
        assert (found["received"], found["graded"], len(found["groups"])) == (4, 4, 2)
    assert run_command(["rollout", "sweep", *played[:2], *at]) == 1
    assert "--executor delegation --model m1" in " ".join(capsys.readouterr().err.split())
    now = empty_house.views()
    assert [each.passed for each in now.find(REWARDS).values()] == [True] * 4
    for run in now.find(REWARDS):
        journal = journals_of(empty_house)(f"{run}.loop")
        state = journal.state
        assert (state.status, state.graded, list(journal.skills.skills)) == ("complete", True, ["phone_numbers"])
        assert run_command(["runs", "replay", run]) == 0
        assert "decisions of " in capsys.readouterr().out
    assert [each.skill for each in offered_skills(now, LoopConfig())] == ["phone_numbers"]


def test_a_worker_acts_on_the_instance_and_each_step_is_charged_to_the_loop(
    client: EnvClient, host: ModelServer
) -> None:
    store, blobs = a_store(), MemoryBlobs()
    (job,) = jobs([CANONICAL_SEED])
    with means(client, host, store, blobs) as playing:
        rollout(job, store, blobs, playing)
    found = events(store, job.run)
    steps = [each for each in found if each.type == "StepTaken"]
    assert [each.index for each in steps] == list(range(len(steps)))
    assert (steps[-1].action, found[-1].type) == ("finish", "RewardGraded")
    assert isinstance(found[-1], RewardGraded)
    assert found[-1].passed
    journal = LoopJournal(store, blobs, f"{job.run}.loop", stopwatch)
    assert journal.budget.spent.tool_calls == len(steps) - 1  # the last one is the manager's
    called = [each for each in found if each.type == "ModelCalled"]
    assert {each.role for each in called} == {"policy"}
    assert len(called) == len(host.asked)
    worker = next(each for each in host.asked if not each.text.startswith("You are the manager"))
    assert "Where sellers hide their phone." in worker.text


def test_a_plan_is_walked_by_a_worker_that_a_manager_asks(client: EnvClient, host: ModelServer) -> None:
    store, blobs = a_store(), MemoryBlobs()
    (job,) = jobs([CANONICAL_SEED])
    with means(client, host, store, blobs, walks=True) as playing:
        rollout(job, store, blobs, playing)
    assert events(store, job.run)[-1].passed
    assert events(store, job.run)[0].executor == "delegation-plan"
    assert all(each.text.startswith("You are the manager") for each in host.asked)


def test_a_run_that_is_played_again_opens_another_loop_and_ends_the_one_before(
    client: EnvClient, host: ModelServer
) -> None:
    store, blobs = a_store(), MemoryBlobs()
    (job,) = jobs([CANONICAL_SEED])
    host.answer = lambda _asked: JSONResponse({"error": {"message": "down"}}, 500)
    with means(client, host, store, blobs) as playing:
        rollout(job, store, blobs, replace(playing, tries=2))
    assert isinstance(events(store, job.run)[-1], RunMissing)
    ends = [loop_events(store, f"{job.run}.loop{number}")[-1] for number in ("", "2")]
    assert [(each.type, each.status) for each in ends] == [("LoopClosed", "aborted")] * 2


def test_a_loop_that_uses_up_the_steps_of_its_run_is_out_of_budget(client: EnvClient, host: ModelServer) -> None:
    store, blobs = a_store(), MemoryBlobs()
    (job,) = jobs([CANONICAL_SEED])
    short = replace(job, template=job.template.model_copy(update={"max_steps": 3}))
    with means(client, host, store, blobs) as playing:
        rollout(short, store, blobs, playing)
    found = events(store, job.run)
    assert len([each for each in found if each.type == "StepTaken"]) <= 4
    assert next(each for each in found if each.type == "RunFinished").status == "out_of_budget"


def drawn(asked: Asked) -> JSONResponse:
    """Tokens are characters, each message closed by token 1. A manager whose seed 2 divides gives up."""
    if "top_logprobs" in asked.body:
        return JSONResponse(chat_completion(asked.body, "blue"))
    gives_up = asked.text.startswith("You are the manager") and asked.body["seed"] % 2
    answer = chat_completion(asked.body, '{"decision": "fail", "reasoning": "no"}' if gives_up else manages(asked))
    texts = [message["content"] for message in asked.body["messages"]]
    answer["prompt_token_ids"] = [token for text in texts for token in (*map(ord, text), 1)]
    (choice,) = answer["choices"]
    choice["token_ids"] += [1]
    choice["logprobs"]["content"].append({"token": "<end>", "logprob": LOGPROB, "bytes": None, "top_logprobs": []})
    return JSONResponse(answer)


def test_decisions_become_rows_of_tokens_and_those_drawn_under_a_schema_do_not(
    client: EnvClient, host: ModelServer
) -> None:
    host.answer = drawn
    for bound in (False, True):
        store, blobs = a_store(), MemoryBlobs()
        with means(client, host, store, blobs, bound=bound, **SERVED) as playing:
            assert playing.executor.offers_logprobs
            for job in jobs([CANONICAL_SEED], siblings=6, temperature_micro=700_000):
                rollout(job, store, blobs, playing)
        assert {each.passed for each in views(store).find(REWARDS).values()} == {True, False}
        built = freeze.build_dataset(store, blobs, views(store), GrpoQuery(reward="shaped"))
        if bound:
            assert (built.height, {each.reason for each in built.refused}) == (0, {"constrained"})
        else:
            assert built.refused == ()
            said = {row["completion"][0]["content"] for row in built.rows.to_dicts()}
            assert any('"decision": "delegate"' in text for text in said)
            assert any('"decision": "fail"' in text for text in said)
            assert {row["temperature"] for row in built.rows.to_dicts()} == {0.7}


def test_a_delegation_loop_needs_the_journals_of_a_house() -> None:
    with pytest.raises(WrongWay), executor_of(Way.DELEGATION, Settings(model="m", model_url="http://127.0.0.1:9")):
        pass
