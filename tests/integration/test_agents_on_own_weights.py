"""An agent that is not ours before weights that we serve: its calls are drawn by its run's weights, and are rows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.responses import JSONResponse, StreamingResponse

from agents.envs.clients.client import EnvClient
from agents.executors.by_weights import refuse_unserved
from agents.executors.errors import NotServed
from agents.executors.outside.agent_spec import read_agent
from agents.executors.outside.executor import AgentExecutor
from agents.learning.memory import forget_everything
from agents.models.errors import ModelUnreachable
from agents.rollouts.play import Job, Means
from agents.rollouts.record import rollout, stopwatch
from agents.rollouts.sweep import SeedSweep
from api.datasets import freeze
from api.serving.run_endpoint import RunEndpoint, open_endpoint
from api.settings import Settings
from api.sweeps.executors import Way, executor_of, options_of, recorded_as, worker_of
from eventlog.blobs import MemoryBlobs
from eventlog.errors import CheckpointMissing
from eventlog.events import GrpoQuery, ModelCalled, RewardGraded, SeedsRule, SftQuery, SweepPlanned, Template
from eventlog.weights_folder import Base
from projections.datasets.row_columns import Kind
from tests.model_server import Asked, Reply, model_server
from tests.own_site import OwnSite, serve_own_site
from tests.tiny import make_base, planted_checkpoint
from tests.unit.test_agent_samples import BOOK, EMPTY, a_store, views
from trainer.bases import check_rows
from trainer.checkpoint import Checkpoint
from trainer.rows import read_rows

pytestmark = [
    pytest.mark.timeout(300),  # the first to run imports what a model needs
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

AGENT = '''
import json, os, re, urllib.request

ENDS = list("abcdefghijklmnopqrst")  # weights that were never trained end no answer

def post(url, body, **headers):
    sent = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json", **headers})
    return json.loads(urllib.request.urlopen(sent, timeout=60).read())


def fetch(url, data=None):
    return urllib.request.urlopen(urllib.request.Request(url, data), timeout=10).read().decode()


def ask(task):
    """Asks its model in both dialects, and buys a jacket if the draw of its seed says so."""
    model, said = os.environ["FLYWHEEL_MODEL"], [{"role": "user", "content": task.instruction}]
    key = os.environ["OPENAI_API_KEY"]
    chat = {"model": model, "messages": said, "max_tokens": 150, "seed": task.seed, "stop": ENDS}
    found = post(os.environ["OPENAI_BASE_URL"] + "/chat/completions", chat, Authorization="Bearer " + key)
    message = {"model": model, "messages": said, "max_tokens": 150, "system": "Be brief.", "stop_sequences": ENDS}
    told = post(os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages", message, **{"x-api-key": key})
    assert found["model"] == told["model"] == model, (found, told)
    assert "token_ids" not in json.dumps(found) + json.dumps(told)
    if task.seed % 2:
        jacket = re.search(r'href="([^"]+/jacket-[0-9]+)"', fetch(task.url + "catalogue"))[1]
        fetch(task.url.partition("/i/")[0] + jacket, b"")
'''
INSTRUCTION = "Buy the cheapest jacket."
TEMPLATE = Template(
    template_id="shop.buy",
    cluster="navigation",
    oracle_task_id="shop.buy",
    instruction=INSTRUCTION,
    plan_text=INSTRUCTION,
    max_steps=10,
)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnSite]:
    with serve_own_site(tmp_path_factory.mktemp("shop")) as site:
        yield site


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Base:
    return make_base(tmp_path_factory.mktemp("bases"), longest=512)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory, base: Base) -> Checkpoint:
    return planted_checkpoint(tmp_path_factory.mktemp("checkpoints"), base, seed=1, scale=1.0)


@contextmanager
def agent_before(base: Base, checkpoints: Path, folder: Path) -> Iterator[AgentExecutor]:
    (folder / "asking.py").write_text(AGENT, "utf-8")
    settings, agent = Settings(model=f"transformers:{base.path}"), read_agent("python:asking:ask", folder)

    def folder_of(weights: str) -> Path:
        if not (checkpoints / weights).is_dir():
            raise NotServed(actual=weights, expected="a checkpoint that was saved")
        return checkpoints / weights

    with executor_of(Way.PLAN, settings, agent=agent, folder_of=folder_of) as executor:
        assert isinstance(executor, AgentExecutor)
        yield executor


def jobs(weights: str, sweep: str) -> list[Job]:
    artifact, _ = forget_everything(weights)
    specs = SeedSweep(sweep, [TEMPLATE], [3], 4, [1_000_000]).specs()
    return [Job(spec, TEMPLATE, "shop", artifact, (), None, None, learns=False) for spec in specs]


def test_an_agents_calls_are_drawn_by_the_weights_of_its_run_and_become_rows_that_training_takes(
    tmp_path: Path, shop: OwnSite, base: Base, saved: Checkpoint
) -> None:
    store, blobs = a_store(), MemoryBlobs()
    todo = [*jobs("base", "plain"), *jobs(saved.digest, "tuned")]
    with agent_before(base, saved.path.parent, tmp_path) as executor, EnvClient(shop.url, shop.token) as client:
        for job in todo:
            rollout(job, store, blobs, Means(client, BOOK, SeedsRule(), stopwatch, executor))
    events: list[Any] = [recorded.event for recorded in store.read()]
    passed = {each.run: each.passed for each in events if isinstance(each, RewardGraded)}
    assert set(passed) == {job.run for job in todo}
    assert set(passed.values()) == {True, False}  # so that a group can be compared
    name, first = f"transformers:{base.digest[:12]}", {}
    for job in todo:
        calls = [each for each in events if isinstance(each, ModelCalled) and each.run == job.run]
        tuned = "" if job.artifact.weights == "base" else f"+{saved.digest[:12]}"
        assert [each.model for each in calls] == [f"{name}{tuned}"] * 2
        for call in calls:
            said = json.loads(blobs.get(call.completion).body)
            assert (said["tokenizer"], said["chat_template"]) == (base.tokenizer, base.chat_template)
            assert said["processed_logprobs"]
            (sample,) = said["samples"]
            assert len(sample["token_ids"]) == len(sample["logprobs"]) > 0
            assert said["prompt_token_ids"]
        first[job.spec.sibling_index, job.artifact.weights] = json.loads(blobs.get(calls[0].completion).body)
    for sibling in range(4):  # the same seed: another answer, by other weights alone
        one, other = first[sibling, "base"], first[sibling, saved.digest]
        assert one["prompt_token_ids"] == other["prompt_token_ids"]
        assert one["samples"][0]["logprobs"] != other["samples"][0]["logprobs"]
    queries: dict[Kind, SftQuery | GrpoQuery] = {
        "sft": SftQuery(runs="policy", min_score=0),
        "grpo": GrpoQuery(reward="score"),
    }
    for kind, query in queries.items():
        built = freeze.build_dataset(store, blobs, views(store), query)
        assert set(built.rows["weights"]) == {"base", saved.digest}, built.refused
        built.rows.write_parquet(tmp_path / f"{kind}.parquet")
        check_rows(read_rows(tmp_path / f"{kind}.parquet", kind), base)


def test_weights_that_are_not_served_are_refused_before_anything_is_played(
    tmp_path: Path, base: Base, saved: Checkpoint
) -> None:
    with agent_before(base, saved.path.parent, tmp_path) as executor:
        refuse_unserved(executor, [forget_everything("base")[0], forget_everything(saved.digest)[0]])
        with pytest.raises(NotServed, match="expected one of a checkpoint that was saved"):
            refuse_unserved(executor, [forget_everything("e" * 64)[0]])


_OPENAI_ONLY = AGENT.partition("    message = ")[0].replace("both dialects", "one dialect")
CHATTING = f"{_OPENAI_ONLY}    assert found['model'] == model\n"


def test_an_agent_before_a_server_that_loads_checkpoints_is_answered_by_its_runs_and_not_told_which(
    tmp_path: Path, shop: OwnSite, base: Base, saved: Checkpoint
) -> None:
    (tmp_path / "chatting.py").write_text(CHATTING, "utf-8")
    store, blobs = a_store(), MemoryBlobs()
    todo = [*jobs("base", "plain")[:1], *jobs(saved.digest, "tuned")[:1]]
    with model_server(lambda asked: str(asked.body["model"])) as server:
        settings = Settings(model="m1", model_url=server.url, model_base=base.digest, model_token_ids=True)
        agent = read_agent("python:chatting:ask", tmp_path)
        opening = executor_of(Way.PLAN, settings, agent=agent, folder_of=lambda digest: saved.path.parent / digest)
        with opening as executor, EnvClient(shop.url, shop.token) as client:
            refuse_unserved(executor, [job.artifact for job in todo])
            with pytest.raises(CheckpointMissing):
                refuse_unserved(executor, [forget_everything("e" * 64)[0]])
            server.loaded.clear()  # it was restarted
            for job in todo:
                rollout(job, store, blobs, Means(client, BOOK, SeedsRule(), stopwatch, executor))
    served = f"m1+{saved.digest[:12]}"
    calls = [each.event for each in store.read() if isinstance(each.event, ModelCalled)]
    assert [call.model for call in calls] == ["m1", served]
    said = [json.loads(blobs.get(call.completion).body)["samples"][0]["text"] for call in calls]
    assert said == ["m1", served]
    assert [*server.loaded] == [served]


def errors_of(endpoint: RunEndpoint, weights: str) -> list[tuple[int, dict[str, Any]]]:
    """What an agent is told that asks for more than its model has room for, whole and as a stream."""
    said = [{"role": "user", "content": "word " * 600}]
    told = []
    with endpoint.open_run(weights=weights) as run, httpx2.Client(trust_env=False) as web:
        for is_streamed in (False, True):
            body = {"model": run.model.name, "messages": said, "max_tokens": 100, "stream": is_streamed}
            headers = {"Authorization": f"Bearer {run.model.key}"}
            answer = web.post(f"{endpoint.address}/v1/chat/completions", json=body, headers=headers)
            told.append((answer.status_code, answer.json()))
    return told


def test_an_error_of_its_model_does_not_tell_an_agent_by_which_weights_it_is_answered(
    base: Base, saved: Checkpoint
) -> None:
    settings = Settings(model=f"transformers:{base.path}")
    served = open_endpoint(settings, None, lambda digest: saved.path.parent / digest)
    assert served is not None
    with served as endpoint:
        plain, tuned = (errors_of(endpoint, weights) for weights in ("base", saved.digest))
    assert plain == tuned
    assert [status for status, _ in plain] == [400, 400]
    assert "exceed a context of 512" in plain[0][1]["error"]["message"]


def refuse_tuned(asked: Asked) -> Reply:
    """A server that fails for a checkpoint: at its calls, or with an error that names it in a stream."""
    if asked.text == "fail":
        return JSONResponse({"error": {"message": f"{asked.body['model']} is out of memory"}}, 500)
    return StreamingResponse(iter([f'data: {{"error": "{asked.body["model"]} is gone"}}\n\n'.encode()]))


def test_a_failure_of_its_model_server_does_not_tell_an_agent_either(base: Base, saved: Checkpoint) -> None:
    def folder_of(digest: str) -> Path:
        return saved.path.parent / digest

    with model_server(refuse_tuned) as server:
        settings = Settings(model="m1", model_url=server.url, model_base=base.digest)
        served = open_endpoint(settings, None, folder_of)
        assert served is not None
        found: dict[str, list[str]] = {}
        with served as endpoint, httpx2.Client(trust_env=False) as web:
            for weights in ("base", saved.digest):
                with endpoint.open_run(weights=weights) as run:
                    headers, asked = {"Authorization": f"Bearer {run.model.key}"}, {"model": "m1"}
                    for words, is_streamed in (("fail", False), ("fail", True), ("break", True)):
                        body = {**asked, "messages": [{"role": "user", "content": words}], "stream": is_streamed}
                        answer = web.post(f"{endpoint.address}/v1/chat/completions", json=body, headers=headers)
                        found.setdefault(weights, []).append(f"{answer.status_code} {answer.text}")
                    with pytest.raises(ModelUnreachable, match=f"{run.recorded} is gone".replace("+", r"\+")):
                        run.close()  # whoever reads why the run is missing is told
    plain, tuned = found.values()
    assert plain == tuned
    assert all("m1+" not in each for each in tuned)


def test_an_agent_before_another_base_is_another_agent(tmp_path: Path, base: Base, saved: Checkpoint) -> None:
    alone = read_agent
    with agent_before(base, saved.path.parent, tmp_path) as executor:
        name, text = recorded_as(executor)
        assert text == f"transformers:{base.digest[:12]} python:asking:ask"
        assert name != alone("python:asking:ask", tmp_path).recorded_name
        executor.agent.refuse_changed()
        told = alone("python:asking:ask", tmp_path, by_proxy=True).with_model("transformers:0123456789ab")
    (spec,) = SeedSweep("s1", [TEMPLATE], [1], 1).specs()
    planned = SweepPlanned(
        sweep="s1",
        environment="shop",
        templates=(TEMPLATE,),
        specs=(spec,),
        artifact=EMPTY,
        rng_seed=7,
        executor=name,
        model=text,
    )
    options = "--agent python:asking:ask"
    assert options_of(planned) == options
    assert worker_of(planned) == f"FLYWHEEL_MODEL=transformers:FOLDER flywheel worker --site shop {options}"
    assert options_of(planned.model_copy(update={"model": told.text})) == f"{options} --advice proxy"
