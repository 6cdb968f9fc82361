"""A policy over real HTTP on a real site, played into a log: what is asked, what is kept, what a verifier adds."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from typing import Any

import pytest
from pydantic import SecretStr
from starlette.responses import JSONResponse

from agents.envs.clients.client import EnvClient
from agents.envs.clients.mutations import read_mutations
from agents.envs.provider import Site
from agents.envs.sites.marketplace.drift import CANONICAL, drift_family
from agents.envs.sites.marketplace.tasks import TASKS
from agents.executors.executor import Executor
from agents.executors.observers import watch_factory
from agents.executors.plan import PlanExecutor
from agents.executors.policy import PolicyExecutor
from agents.learning.step_checks import ModelVerifier
from agents.models.openai import OpenAI, OpenAISettings
from agents.models.wire import Patience
from agents.plans import Piece, anchor_of, rewrite_id
from agents.rewards import DEFAULT_PRICES
from agents.rollouts.dispatching.dispatch import Call, Dispatch
from agents.rollouts.drawing import drawing_seed
from agents.rollouts.play import Job, Means
from agents.rollouts.record import rollout, stopwatch
from agents.rollouts.regrade import conduct_recorded
from agents.rollouts.sweep import SeedSweep
from api.course import Course
from api.datasets import freeze
from api.errors import NoModel
from api.house import House
from api.settings import Settings
from api.sweeps.executors import Way, executor_of
from api.sweeps.jobs import play_jobs
from benchmarks.shipped import OPERATIONS, template
from eventlog.blobs import MemoryBlobs
from eventlog.blobs.conversations import MESSAGE_TYPE, get_messages
from eventlog.events import (
    DpoQuery,
    FollowLink,
    GrpoQuery,
    ModelCalled,
    RewardGraded,
    RunFinished,
    SeedsRule,
    SftQuery,
    StepTaken,
)
from eventlog.memory import MemoryStore
from eventlog.store import Append, EventStore
from projections.rewards import REWARDS
from tests.golden.make import Quiet
from tests.model_server import LOGPROB, Asked, ModelServer, chat_completion, model_server
from tests.sites import SharedSite
from tests.unit.test_agent_samples import BOOK, EMPTY, a_store, views

PHONE = template("marketplace.phone_reveal", next(t.instruction for t in TASKS if t.task_id.endswith("phone_reveal")))
CANONICAL_SEED = next(seed for seed in range(9) if drift_family(seed) is CANONICAL)
DRIFTED_SEED = next(seed for seed in range(9) if drift_family(seed) is not CANONICAL)
WANTED = {"Make": "Sea Ray", "State": "Florida", "Seller": "Private owner", "Sort by": "Price: low to high"}
HELD = re.compile(r'^\[(?:choice|field)\] ([^:]+): "([^"]*)"', re.MULTILINE)


def action(name: str, target: str = "", value: str = "") -> str:
    return json.dumps({"why": "the rule says so", "action": name, "target": target, "value": value})


def rule(asked: Asked) -> str:
    """A policy that finds the phone number, from what it was told and from nothing else."""
    told = [_text(message) for message in asked.body["messages"] if message["role"] == "user"]
    led = [place for place, text in enumerate(told) if "\npage /" in text]
    if not led:
        return action("navigate", "/")
    page, since = told[led[-1]], "\n".join(told[led[-1] :])
    if "[button] Show phone number" in page:
        return action("submit", "Show phone number")
    if "[button] Search" not in page:
        return action("finish") if "Sea Ray" in page.split("\n# ")[1] else action("click", "Boats for sale")
    held = dict(HELD.findall(since))
    for label, value in WANTED.items():
        if held[label] != value:
            return action("select_option", label, value)
    if "?" not in page.partition("page /")[2].partition(",")[0]:
        return action("submit", "Search")
    return action("click", re.findall(r"^\[link\] (.*Sea Ray.*?)(?: -> .*)?$", page, re.MULTILINE)[0])


def _text(message: dict[str, Any]) -> str:
    assert isinstance(message["content"], str)
    return message["content"]


YES = '{"passed": true, "reason": "it shows"}'


@pytest.fixture(scope="module")
def site(shared_site: SharedSite) -> Site:
    return shared_site("marketplace")


@pytest.fixture(scope="module")
def client(site: Site) -> Iterator[EnvClient]:
    with EnvClient(site.admin_url, site.admin_token) as opened:
        yield opened


@pytest.fixture(scope="module")
def running() -> Iterator[ModelServer]:
    with model_server(rule) as opened:
        yield opened


@pytest.fixture
def host(running: ModelServer) -> ModelServer:
    running.asked.clear()
    running.answer = rule
    return running


@contextmanager
def model(host: ModelServer, **settings: Any) -> Iterator[OpenAI]:
    wanted = {"model": "m1", "base_url": host.url, "offers_token_ids": True, **settings}
    with closing(OpenAI(OpenAISettings(**wanted), Patience(timeout_s=5.0, tries=2), pause=lambda _: None)) as opened:
        yield opened


def jobs(seeds: list[int], siblings: int = 1, temperature_micro: int | None = None) -> list[Job]:
    specs = SeedSweep("s1", [PHONE], seeds, siblings).specs()
    drawn = [spec.model_copy(update={"temperature_micro": temperature_micro}) for spec in specs]
    return [Job(spec, PHONE, "marketplace", EMPTY, (), None, None, learns=True) for spec in drawn]


def events(store: EventStore, run: str) -> list[Any]:
    return [recorded.event for recorded in store.read(stream=f"run/{run}")]


def calls(store: EventStore, run: str) -> list[ModelCalled]:
    return [event for event in events(store, run) if isinstance(event, ModelCalled)]


@pytest.mark.parametrize("seed", [CANONICAL_SEED, DRIFTED_SEED])
def test_a_policy_solves_a_task_from_the_view_and_every_call_is_in_the_log(
    client: EnvClient, host: ModelServer, seed: int
) -> None:
    (job,), store, blobs = jobs([seed], temperature_micro=700_000), a_store(), MemoryBlobs()
    with model(host) as asked:
        played = rollout(job, store, blobs, Means(client, BOOK, SeedsRule(), stopwatch, PolicyExecutor(asked)))
    found = events(store, job.run)
    assert found[0].executor == "policy"
    steps = 10
    assert [event.type for event in found] == [
        "RunStarted",
        "InstanceReset",
        *["ModelCalled", "StepTaken"] * steps,
        "RunFinished",
        "RewardGraded",
    ]
    assert found[-1].passed
    called = calls(store, job.run)
    assert [(call.index, call.step, call.role, call.model) for call in called] == [
        (number, number, "policy", "m1-served") for number in range(steps)
    ]
    for call, request in zip(called, host.asked, strict=True):
        kept = get_messages(blobs, call.messages)
        sent = [
            {"role": message["role"], "parts": [{"text": message["content"]}]} for message in request.body["messages"]
        ]
        assert kept == sent
        assert (request.body["temperature"], request.body["seed"]) == (0.7, drawing_seed(job.spec))
        assert (call.sampling.temperature_micro, call.sampling.seed) == (700_000, drawing_seed(job.spec))
        answer = json.loads(blobs.get(call.completion).body)
        (sample,) = answer["samples"]
        assert call.has_logprobs
        assert sample["token_ids"] == [ord(sign) for sign in sample["text"]]
        assert sample["logprobs"] == [LOGPROB] * len(sample["text"])
        assert sample["text"] == rule(request)
        assert answer["prompt_token_ids"] == [1, 2, 3]
    messages = {blob.digest for blob in played.blobs if blob.media_type == MESSAGE_TYPE}
    assert len(messages) == len(host.asked[-1].body["messages"]) == 2 * steps
    usage = next(event for event in found if isinstance(event, RunFinished)).usage
    assert usage.actions == steps
    assert usage.input_tokens == sum(call.input_tokens or 0 for call in called) == 11 * steps
    assert usage.output_tokens == sum(call.output_tokens or 0 for call in called) > 0


def test_siblings_draw_with_seeds_of_their_own_and_side_by_side_as_one_by_one(
    client: EnvClient, host: ModelServer
) -> None:
    todo = jobs([CANONICAL_SEED, DRIFTED_SEED], siblings=3)

    def all_of(max_parallel: int) -> dict[str, Any]:
        store, blobs = a_store(), MemoryBlobs()
        with model(host) as asked:
            means = Means(client, BOOK, SeedsRule(), stopwatch, PolicyExecutor(asked))
            calls = [Call(job) for job in todo]
            done = Dispatch(calls, lambda job, _: rollout(job, store, blobs, means), max_parallel=max_parallel)
            assert [each.ending for each in done.results()] == ["played"] * len(todo)
        kept = ("StepTaken", "ModelCalled", "InstanceReset")
        return {job.run: [event for event in events(store, job.run) if event.type in kept] for job in todo}

    beside = all_of(6)
    seeds = Counter(asked.body["seed"] for asked in host.asked)
    assert set(seeds) == {drawing_seed(job.spec) for job in todo}
    assert len(seeds) == 6
    assert beside == all_of(1)


def test_a_model_that_does_not_answer_makes_a_run_missing(client: EnvClient, host: ModelServer) -> None:
    answers = iter([action("navigate", "/")])

    def overloaded(_asked: Asked) -> Any:
        return next(answers, JSONResponse({"error": "busy"}, 503))

    host.answer = overloaded
    (job,), store = jobs([CANONICAL_SEED]), a_store()
    with model(host) as asked:
        rollout(job, store, MemoryBlobs(), Means(client, BOOK, SeedsRule(), stopwatch, PolicyExecutor(asked)))
    assert [event.type for event in events(store, job.run)] == ["RunStarted", "RunMissing"]
    assert events(store, job.run)[-1].reason == "model_down"


def test_a_model_that_talks_nonsense_makes_a_run_that_failed(client: EnvClient, host: ModelServer) -> None:
    host.answer = lambda _: "Let me think."
    (job,), store = jobs([CANONICAL_SEED]), a_store()
    with model(host) as asked:
        rollout(job, store, MemoryBlobs(), Means(client, BOOK, SeedsRule(), stopwatch, PolicyExecutor(asked)))
    found = events(store, job.run)
    assert [event.type for event in found[2:]] == ["ModelCalled", "ModelCalled", "RunFinished", "RewardGraded"]
    assert (found[-2].status, found[-1].passed, found[-1].score) == ("halted", False, 0)
    assert views(store).find(REWARDS).keys() == {job.run}


def test_the_progress_of_a_policy_counts_against_the_steps_that_it_was_allowed(
    client: EnvClient, host: ModelServer
) -> None:
    answers = iter([action("navigate", "/")])
    host.answer = lambda _: next(answers, "Let me think.")
    (job,), store = jobs([CANONICAL_SEED]), a_store()
    with model(host) as asked:
        rollout(job, store, MemoryBlobs(), Means(client, BOOK, SeedsRule(), stopwatch, PolicyExecutor(asked)))
    found = events(store, job.run)
    finished = next(event for event in found if isinstance(event, RunFinished))
    steps = [event for event in found if isinstance(event, StepTaken)]
    assert len(steps) == 1
    graded = next(event for event in found if isinstance(event, RewardGraded))
    assert graded.terms.progress == 1_000_000 // PHONE.max_steps
    again = conduct_recorded(found[0], steps, finished, PHONE.plan_steps)
    assert (again.planned, again.progress(passed=False)) == (PHONE.max_steps, graded.terms.progress)


# Step checks ---------------------------------------------------------------------------------------------------------


def watched(
    client: EnvClient, host: ModelServer, executor: Executor, *, has_record: bool
) -> tuple[MemoryStore, MemoryBlobs, Job]:
    """A run whose steps are checked: by the site's record where there is one, else by the model."""
    (job,), store, blobs = jobs([CANONICAL_SEED]), a_store(), MemoryBlobs()
    with model(host, model="checker") as asked:
        watch = watch_factory(
            OPERATIONS["marketplace"],
            look=(lambda instance, since: read_mutations(client, instance, since)) if has_record else None,
            by_model=ModelVerifier(asked),
        )
        rollout(job, store, blobs, Means(client, BOOK, SeedsRule(), stopwatch, executor, watch))
    return store, blobs, job


def test_where_a_site_has_a_record_no_verifier_model_is_called(client: EnvClient, host: ModelServer) -> None:
    store, _, job = watched(client, host, PlanExecutor(), has_record=True)
    found = events(store, job.run)
    assert host.asked == []
    assert calls(store, job.run) == []
    checks = [event for event in found if event.type == "StepVerified"]
    assert [check.index for check in checks] == list(range(len(PHONE.plan_steps)))
    assert {(check.by, check.said) for check in checks} == {("oracle", "passed")}
    assert checks[-1].operations == ("phone_revealed",)
    assert Counter(check.check for check in checks) == {"page": 2, "filter": 1, "step": 5}


def test_without_a_record_the_model_is_asked_of_each_page_and_every_call_is_in_the_log(
    client: EnvClient, host: ModelServer
) -> None:
    host.answer = lambda _: YES
    store, blobs, job = watched(client, host, PlanExecutor(), has_record=False)
    found = events(store, job.run)
    called = calls(store, job.run)
    assert len(host.asked) == len(called) == 4
    for call, request in zip(called, host.asked, strict=True):
        assert (call.role, request.body["model"]) == ("verifier", "checker")
        assert get_messages(blobs, call.messages)[1]["parts"] == [{"text": request.body["messages"][1]["content"]}]
        assert json.loads(blobs.get(call.completion).body)["samples"][0]["text"] == YES
        place = found.index(call)
        assert (found[place - 1].type, found[place + 1].type) == ("StepTaken", "StepVerified")
        assert found[place - 1].index == call.step == found[place + 1].index
    said = Counter((event.by, event.said) for event in found if event.type == "StepVerified")
    assert said == {("model", "passed"): 4, ("model", "unknown"): 4}
    usage = next(event for event in found if isinstance(event, RunFinished)).usage
    assert (usage.input_tokens, usage.output_tokens) == (0, 0)


def test_the_calls_of_a_policy_and_of_its_verifier_are_numbered_in_the_order_they_were_made(
    client: EnvClient, host: ModelServer
) -> None:
    host.answer = lambda asked: YES if asked.body["model"] == "checker" else rule(asked)
    with model(host) as asked:
        store, _, job = watched(client, host, PolicyExecutor(asked), has_record=False)
    called = calls(store, job.run)
    assert [call.index for call in called] == list(range(len(called)))
    assert [call.role for call in called] == [
        "verifier" if request.body["model"] == "checker" else "policy" for request in host.asked
    ]


def test_a_verifier_that_does_not_answer_is_no_signal_and_no_call(client: EnvClient, host: ModelServer) -> None:
    host.answer = lambda _: JSONResponse({"error": "no"}, 400)
    store, _, job = watched(client, host, PlanExecutor(), has_record=False)
    found = events(store, job.run)
    assert calls(store, job.run) == []
    assert {event.said for event in found if event.type == "StepVerified"} == {"unknown"}
    assert found[-1].passed
    host.answer = lambda _: "I would say so"
    store, _, job = watched(client, host, PlanExecutor(), has_record=False)
    assert len(calls(store, job.run)) == 4


# By name, through the house ------------------------------------------------------------------------------------------


def test_a_house_plays_a_policy_by_its_name_and_memory_has_no_part_in_it(
    empty_house: House, client: EnvClient, host: ModelServer
) -> None:
    empty_house.store.append([Append("prices", (DEFAULT_PRICES,), "test")])
    settings = Settings(model="m1", model_url=host.url, model_token_ids=True, model_key=SecretStr("k"))
    follow = FollowLink(page="/", label="Advice")
    piece = Piece(rewrite_id(anchor_of(PHONE.plan_steps[0]), follow), anchor_of(PHONE.plan_steps[0]), follow, 9, 0)
    todo = [replace(job, pieces=(piece,)) for job in jobs([CANONICAL_SEED, DRIFTED_SEED])]
    with executor_of(Way.POLICY, settings, model="m2") as executor:
        assert executor.offers_logprobs
        course = Course(verify_steps=True)
        play_jobs(empty_house, client, "sweep", todo, course, Quiet(), executor)
    rewards = empty_house.views().find(REWARDS)
    begun = [events(empty_house.store, job.run)[0] for job in todo]
    assert [(start.executor, start.applied) for start in begun] == [("policy", ())] * 2
    assert [reward.passed for reward in rewards.values()] == [True, True]
    assert {asked.body["model"] for asked in host.asked} == {"m2"}
    found = events(empty_house.store, todo[0].run)
    assert {event.by for event in found if event.type == "StepVerified"} == {"oracle"}
    built = freeze.build_dataset(
        empty_house.store, empty_house.blobs, empty_house.views(), SftQuery(environment="marketplace")
    )
    assert (built.rows.height, [(each.reason, each.runs) for each in built.refused]) == (0, [("no_plan", 2)])
    call = calls(empty_house.store, todo[0].run)[-1]
    assert len(get_messages(empty_house.blobs, call.messages)) == 2 * len(
        [event for event in found if event.type == "StepTaken"]
    )


SERVED: dict[str, Any] = {"tokenizer": "a" * 64, "chat_template": "b" * 64, "processed_logprobs": True}


def growing(asked: Asked) -> JSONResponse:
    """A policy whose tokens are characters, each message closed by token 1. Seeds that 5 divides give up."""
    messages = asked.body["messages"]
    if "top_logprobs" in asked.body:  # asked once whether its logprobs are processed; it does not say
        return JSONResponse(chat_completion(asked.body, "blue"))
    said = rule(asked) if asked.body["seed"] % 5 or len(messages) < 7 else "no action"
    answer = chat_completion(asked.body, said)
    answer["prompt_token_ids"] = [token for m in messages for token in (*map(ord, _text(m)), 1)]
    (choice,) = answer["choices"]
    choice["token_ids"] += [1]
    choice["logprobs"]["content"].append({"token": "<end>", "logprob": LOGPROB, "bytes": None, "top_logprobs": []})
    return JSONResponse(answer)


def test_what_a_policy_drew_becomes_rows_of_tokens_with_what_it_saw_masked(
    client: EnvClient, host: ModelServer
) -> None:
    host.answer = growing
    store, blobs = a_store(), MemoryBlobs()
    with model(host, **SERVED) as asked:
        means = Means(client, BOOK, SeedsRule(), stopwatch, PolicyExecutor(asked))
        for job in jobs([CANONICAL_SEED], siblings=4, temperature_micro=700_000):
            rollout(job, store, blobs, means)
    built = freeze.build_dataset(store, blobs, views(store), GrpoQuery(reward="shaped"))
    assert (built.refused, built.groups) == ((), 1)
    asked_last = {str(row["run"]): row for row in built.rows.to_dicts()}
    assert len(asked_last) == built.height == 4
    for run, row in asked_last.items():
        own = calls(store, run)
        assert row["calls"] == len(own)
        said = [json.loads(blobs.get(call.completion).body)["samples"][0]["text"] for call in own]
        drawn = [token for token, mask in zip(row["completion_ids"], row["mask"], strict=True) if mask]
        assert "".join(map(chr, drawn)) == "".join(f"{text}\x01" for text in said)
        whole = "".join(map(chr, (*row["prompt_ids"], *row["completion_ids"])))
        texts = [turn["content"] for turn in (*row["prompt"], *row["completion"])]
        assert whole == "".join(f"{text}\x01" for text in texts)
        seen = [value for value, mask in zip(row["logprobs"], row["mask"], strict=True) if not mask]
        assert set(row["logprobs"]) <= {LOGPROB, 0.0}
        assert set(seen) <= {0.0}
        assert (row["temperature"], row["tokenizer"]) == (0.7, "a" * 64)
    assert abs(sum(row["advantage"] for row in asked_last.values())) < 1e-8
    assert freeze.build_dataset(store, blobs, views(store), SftQuery(runs="policy", min_score=0)).height == 4
    assert freeze.build_dataset(store, blobs, views(store), DpoQuery(reward="shaped", margin=1)).height > 0


def test_an_endpoint_that_does_not_say_what_it_serves_gives_no_rows(client: EnvClient, host: ModelServer) -> None:
    host.answer = growing
    store, blobs = a_store(), MemoryBlobs()
    for settings, reason in ((SERVED | {"processed_logprobs": False}, "raw_logprobs"), ({}, "no_tokenizer")):
        with model(host, **settings) as asked:
            means = Means(client, BOOK, SeedsRule(), stopwatch, PolicyExecutor(asked))
            todo = [
                replace(job, spec=job.spec.model_copy(update={"group_id": reason, "spec_id": f"{reason}{number}"}))
                for number, job in enumerate(jobs([CANONICAL_SEED], siblings=4, temperature_micro=700_000))
            ]
            for job in todo:
                rollout(job, store, blobs, means)
        built = freeze.build_dataset(store, blobs, views(store), GrpoQuery(reward="shaped", group=reason))
        assert [(item.reason, item.runs) for item in built.refused] == [(reason, 4)]


def test_steps_are_not_checked_unless_that_is_asked_for(empty_house: House, client: EnvClient) -> None:
    empty_house.store.append([Append("prices", (DEFAULT_PRICES,), "test")])
    (job,) = jobs([CANONICAL_SEED])
    play_jobs(empty_house, client, "sweep", [job], Course(), Quiet())
    assert "StepVerified" not in {event.type for event in events(empty_house.store, job.run)}


def test_an_executor_that_is_not_there_and_a_model_that_nobody_named_are_refused() -> None:
    with ExitStack() as stack:
        with pytest.raises(NoModel, match="FLYWHEEL_MODEL"):
            stack.enter_context(executor_of(Way.POLICY, Settings()))
        with pytest.raises(NoModel, match="key"):
            stack.enter_context(executor_of(Way.POLICY, Settings(model="m", model_api="anthropic")))
        assert stack.enter_context(executor_of(Way.PLAN, Settings())).name == "plan"
