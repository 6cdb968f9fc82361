"""`flywheel serve --model`: the champion answers behind the proxy, changes are followed, failures leave a reason."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import anthropic
import openai
import pytest
import uvicorn
from sqlalchemy.exc import OperationalError

from agents.learning.memory import forget_everything
from agents.models.local.batches import Batches
from agents.models.local.host import Host
from agents.models.model import Completion, CompletionRequest, Offers, Sample
from api.app import create_app
from api.house import House
from api.ports import listen
from api.serving import deployments
from api.serving.deployments import DeployedModel, Deployment, deploy_champion, follow_champion
from api.serving.errors import NothingDeployed
from api.serving.local_champion import open_champion
from api.sweeps.plan import first_facts
from api.tokens import issue
from eventlog.errors import FlywheelError, LogUnavailable, StatementEnded
from eventlog.events import ArtifactDeployed, ChampionPointed, DeploymentFailed, ModelCalled, RunStarted
from eventlog.store import Append
from eventlog.weights_folder import Base
from gate.promote import STREAM
from tests.learned import with_models
from tests.tiny import make_base, planted_checkpoint
from trainer.checkpoint import Checkpoint

from .test_capture_proxy import calls_of, completion_of
from .test_challenger_references import record

pytestmark = [
    pytest.mark.timeout(300),  # the first to run imports what a model needs
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

ASK: Any = [{"role": "user", "content": "open /boats/17"}]


@dataclass(frozen=True)
class Weights:
    """A base, a checkpoint on it, and one of another base."""

    base: Base
    saved: Checkpoint
    alien: Checkpoint


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Weights:
    folder = tmp_path_factory.mktemp("weights")
    base, other = make_base(folder / "bases"), make_base(folder / "bases", seed=2)
    return Weights(base, planted_checkpoint(folder, base, 1, scale=0.5), planted_checkpoint(folder / "o", other, 1))


@pytest.fixture
def house(empty_house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> House:
    monkeypatch.setattr(deployments, "PAUSE_S", 0.02)
    return with_models(empty_house, tmp_path / "models")


def point_to(house: House, weights: str) -> None:
    artifact, blob = forget_everything(weights)
    house.blobs.put([blob])
    pointed = ChampionPointed(artifact=artifact, by="operator", reason="a test", evaluation=None)
    house.store.append([Append(STREAM, (pointed,), "test")])


def deployed(house: House) -> list[ArtifactDeployed | DeploymentFailed]:
    found = [each.event for each in house.store.read(stream="deployment/serve")]
    return [each for each in found if isinstance(each, ArtifactDeployed | DeploymentFailed)]


def wait_for(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


@contextmanager
def serving(house: House, base: Base, said: list[str]) -> Iterator[Callable[[str], openai.OpenAI]]:
    """A server with the champion on a base; yields a function that makes a client of a run."""
    with ExitStack() as stack:
        champion = stack.enter_context(open_champion(house, f"transformers:{base.path}", said.append))
        listening = stack.enter_context(listen("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(create_app(house, champion), log_level="critical"))
        thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
        thread.start()
        wait_for(lambda: server.started)
        token, port = issue(house.store, "agent", "test"), listening.getsockname()[1]
        try:
            yield lambda run: stack.enter_context(
                openai.OpenAI(base_url=f"http://127.0.0.1:{port}/{run}/v1", api_key=token, max_retries=0)
            )
        finally:
            server.should_exit = True
            thread.join()


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The rows of each step of a model, each of which takes 20 ms longer: else its pieces may come together."""
    found: list[int] = []
    step = Batches._step

    def slow(batches: Batches, *told: Any) -> None:
        found.append(len(told[1].rows))
        time.sleep(0.02)
        step(batches, *told)

    monkeypatch.setattr(Batches, "_step", slow)
    return found


def answered(client: openai.OpenAI, **further: Any) -> Any:
    asked = {"model": "champion", "messages": ASK, "max_tokens": 8, "temperature": 0, **further}
    return client.chat.completions.create(**asked)


def test_the_champion_answers_unchanged_clients_and_a_new_one_is_swapped_in(house: House, weights: Weights) -> None:
    record(house, weights.saved)
    said: list[str] = []
    with serving(house, weights.base, said) as client_of:
        first = answered(client_of("ext-1"))
        assert [each.id for each in client_of("ext-1").models.list()] == ["champion", "base@0"]
        stream = answered(client_of("ext-2"), stream=True)
        assert "".join(part.choices[0].delta.content or "" for part in stream) == first.choices[0].message.content
        point_to(house, weights.saved.digest)
        wait_for(lambda: any("serving ck-" in each for each in said))
        second = answered(client_of("ext-3"))
        drawn = {answered(client_of("ext-4"), temperature=1, max_tokens=16).choices[0].message.content for _ in "12345"}
    assert len(drawn) > 1  # calls without a seed do not repeat each other
    assert second.choices[0].message.content != first.choices[0].message.content
    (call,), (streamed,), (other,) = (calls_of(house, f"ext-{number}") for number in (1, 2, 3))
    assert completion_of(house, call)["samples"] == completion_of(house, streamed)["samples"]
    sample = completion_of(house, call)["samples"][0]
    assert (len(sample["token_ids"]), len(sample["logprobs"])) == (call.output_tokens, call.output_tokens)
    assert completion_of(house, call)["tokenizer"] == weights.base.tokenizer
    assert other.model == f"{call.model}+{weights.saved.digest[:12]}"
    (began,) = (each.event for each in house.store.read(stream="run/ext-3") if isinstance(each.event, RunStarted))
    assert began.artifact.weights == weights.saved.digest
    assert [(each.type, each.artifact.weights) for each in deployed(house)] == [
        ("ArtifactDeployed", "base"),
        ("ArtifactDeployed", weights.saved.digest),
    ]


@pytest.mark.usefixtures("steps")
def test_a_stream_brings_the_text_as_it_is_drawn_and_records_what_a_whole_answer_would(
    house: House, weights: Weights
) -> None:
    asked: Any = {"temperature": 1, "seed": 7, "max_tokens": 24, "n": 2}
    with serving(house, weights.base, []) as client_of:
        whole = answered(client_of("ext-1"), **asked)
        parts = list(answered(client_of("ext-2"), stream=True, stream_options={"include_usage": True}, **asked))
        stop = whole.choices[0].message.content[4:7]
        ended = answered(client_of("ext-3"), stop=stop, **asked)
        stopped = list(answered(client_of("ext-4"), stop=stop, stream=True, **asked))
    for place in (0, 1):
        said = [each.choices[0].delta for each in parts if each.choices and each.choices[0].index == place]
        assert "".join(each.content or "" for each in said) == whole.choices[place].message.content
        assert len([each for each in said if each.content]) > 4
        assert [each.role for each in said if each.role] == ["assistant"]
        text = "".join(p.choices[0].delta.content or "" for p in stopped if p.choices[0].index == place)
        assert text == ended.choices[place].message.content
    assert len({(each.id, each.model, each.created) for each in parts}) == 1
    assert parts[-1].usage == whole.usage
    runs = [completion_of(house, *calls_of(house, f"ext-{number}")) for number in (1, 2, 3, 4)]
    for one, other in (runs[:2], runs[2:]):
        for mine, theirs in zip(one["samples"], other["samples"], strict=True):
            assert theirs == {**mine, "logprobs": pytest.approx(mine["logprobs"], abs=1e-5)}


@pytest.mark.usefixtures("steps")
def test_the_champion_continues_a_text_or_token_ids(house: House, weights: Weights) -> None:
    asked: Any = {"model": "champion", "temperature": 1, "seed": 7, "max_tokens": 24, "logprobs": 1}
    with serving(house, weights.base, []) as client_of:
        whole = client_of("ext-1").completions.create(
            prompt="open /boats", extra_body={"return_token_ids": True}, **asked
        )
        ids: Any = cast("Any", whole).prompt_token_ids
        again = client_of("ext-2").completions.create(prompt=ids, **asked)
        parts = list(client_of("ext-3").completions.create(prompt="open /boats", stream=True, **asked))
        chat = answered(client_of("ext-4"), temperature=1, seed=7, max_tokens=24)
        for prompt, words in (([10**9], "token ids beyond the model"), ([-1], "not"), ("x" * 999, "context")):
            with pytest.raises(openai.BadRequestError, match=words):
                client_of("ext-5").completions.create(prompt=cast("Any", prompt), **asked)
        unbounded: Any = {**asked, "max_tokens": None}
        assert client_of("ext-6").completions.create(prompt="a", **unbounded).usage.completion_tokens == 16
        with pytest.raises(openai.BadRequestError, match="of the drawn tokens alone"):
            client_of("ext-5").completions.create(prompt="a", **{**asked, "logprobs": 5})
        with pytest.raises(openai.BadRequestError, match="suffix"):
            client_of("ext-5").completions.create(prompt="a", suffix="b", **asked)
    text = whole.choices[0].text
    assert text
    assert text != chat.choices[0].message.content  # it is not put into the template of chats
    assert (again.choices[0].text, "".join(each.choices[0].text for each in parts if each.choices)) == (text, text)
    assert len([each for each in parts if each.choices and each.choices[0].text]) > 4
    logprobs = whole.choices[0].logprobs
    assert logprobs is not None
    assert len(logprobs.tokens or ()) == len(logprobs.text_offset or ()) == len(logprobs.token_logprobs or ()) == 24
    one, _, other = (completion_of(house, *calls_of(house, f"ext-{number}"))["samples"][0] for number in (1, 2, 3))
    assert other == {**one, "logprobs": pytest.approx(one["logprobs"], abs=1e-5)}
    assert calls_of(house, "ext-5") == []


def test_a_caller_that_leaves_its_stream_ends_the_drawing(house: House, weights: Weights, steps: list[int]) -> None:
    def leave(client: openai.OpenAI) -> None:
        stream = answered(client, temperature=1, seed=7, max_tokens=100, stream=True)
        assert next(each for each in stream if each.choices[0].delta.content)
        stream.close()

    with serving(house, weights.base, []) as client_of:
        leave(client_of("ext-1"))
        drawn = -1
        while drawn != len(steps):
            drawn = len(steps)
            time.sleep(0.3)
        assert 0 < drawn < 90  # of 100 tokens, which would take 2 s
        assert answered(client_of("ext-2")).choices[0].message.content
    assert calls_of(house, "ext-1") == []


def test_artifacts_are_called_by_name_beside_the_champion(house: House, weights: Weights) -> None:
    record(house, weights.saved)
    record(house, weights.alien)
    with serving(house, weights.base, []) as client_of:
        base = answered(client_of("ext-1")).choices[0].message.content
        name = f"ck-{weights.saved.digest[:8]}@0"
        named = answered(client_of("ext-2"), model=name).choices[0].message.content
        assert named != base
        point_to(house, weights.saved.digest)
        wait_for(lambda: answered(client_of("ext-3")).choices[0].message.content == named)
        assert answered(client_of("ext-4"), model="base@0").choices[0].message.content == base
        assert [each.id for each in client_of("ext-1").models.list()] == ["champion", name, "base@0"]
        for unknown in (f"ck-{weights.alien.digest[:8]}@0", "ck-00000000@0", "base@999999", "base"):
            with pytest.raises(openai.NotFoundError, match="ck-DIGEST@N of a checkpoint on the served base"):
                answered(client_of("ext-5"), model=unknown)
    began = [each.event for each in house.store.read(types=["RunStarted"]) if isinstance(each.event, RunStarted)]
    assert {each.run: each.artifact.weights for each in began if each.run in {"ext-2", "ext-4", "ext-5"}} == {
        "ext-2": weights.saved.digest,
        "ext-4": "base",
    }


def test_calls_of_artifacts_by_name_leave_the_champion_in_memory(
    house: House, weights: Weights, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Host.__init__, "__kwdefaults__", {"most_adapters": 2})
    others = [planted_checkpoint(tmp_path, weights.base, seed) for seed in (7, 8, 9)]
    for each in (weights.saved, *others):
        record(house, each)
    first_facts(house)
    point_to(house, weights.saved.digest)
    detached: list[str] = []
    monkeypatch.setattr(Batches, "detach", lambda _, digest: detached.append(digest))
    with open_champion(house, f"transformers:{weights.base.path}", list[str]().append) as champion:
        for each in others:
            champion.artifacts.model_of(f"ck-{each.digest[:8]}@0")
    assert detached == [each.digest for each in others[:2]]


@pytest.mark.usefixtures("steps")
@pytest.mark.parametrize("is_streamed", [False, True])
def test_the_champion_answers_messages_of_anthropics_client_with_all_that_is_trained_on(
    house: House, weights: Weights, is_streamed: bool
) -> None:
    with serving(house, weights.base, []) as client_of:
        chat = client_of("ext-1")
        expected = answered(chat).choices[0].message.content
        address = str(chat.base_url).removesuffix("ext-1/v1/") + "ext-2"
        with anthropic.Anthropic(base_url=address, api_key=chat.api_key, max_retries=0) as client:
            asked: Any = {"model": "champion", "max_tokens": 8, "messages": ASK, "extra_body": {"temperature": 0}}
            if is_streamed:
                with client.messages.stream(**asked) as stream:
                    assert len(list(stream.text_stream)) > 2
                    said = stream.get_final_message()
            else:
                said = client.messages.create(**asked)
            assert cast("Any", said.content[0]).text == expected
            assert "recorded_by_flywheel" not in said.model_dump_json()
            with pytest.raises(anthropic.BadRequestError, match="top_k"):
                client.messages.create(**{**asked, "extra_body": {"top_k": 5}})
            with pytest.raises(anthropic.BadRequestError, match="plain text alone"):
                client.messages.create(**{**asked, "tools": [{"name": "f", "input_schema": {"type": "object"}}]})
    ours, theirs = (completion_of(house, *calls_of(house, run)) for run in ("ext-1", "ext-2"))
    assert (theirs["samples"], theirs["prompt_token_ids"]) == (ours["samples"], ours["prompt_token_ids"])
    assert (theirs["processed_logprobs"], len(theirs["samples"][0]["logprobs"])) == (True, said.usage.output_tokens)


def test_a_champion_that_cannot_be_loaded_leaves_the_present_one_and_a_reason(house: House, weights: Weights) -> None:
    record(house, weights.alien)
    said: list[str] = []
    with serving(house, weights.base, said) as client_of:
        before = answered(client_of("ext-1")).choices[0].message.content
        point_to(house, weights.alien.digest)
        wait_for(lambda: len(deployed(house)) > 1)
        assert answered(client_of("ext-2")).choices[0].message.content == before
        point_to(house, "base")
        wait_for(lambda: len(deployed(house)) > 2)
    _, failed, again = deployed(house)
    assert isinstance(failed, DeploymentFailed)
    assert (failed.artifact.weights, failed.kept) == (weights.alien.digest, "base")
    assert weights.base.digest in failed.reason
    assert any(each.startswith("still serving base@0: ") for each in said)
    assert again.type == "ArtifactDeployed"


def test_a_champion_that_never_was_served_is_an_error_of_the_start(house: House, weights: Weights) -> None:
    first_facts(house)
    point_to(house, "9" * 64)
    with pytest.raises(FlywheelError, match="9999"), serving(house, weights.base, []):
        pytest.fail("it was served")
    (failed,) = deployed(house)
    assert isinstance(failed, DeploymentFailed)
    assert failed.kept is None


@pytest.mark.parametrize(
    ("further", "status", "words"),
    [
        ({"model": "other"}, 404, "Expected one of: champion"),
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, 400, "plain text alone"),
        ({"response_format": {"type": "json_object"}}, 400, "plain text alone"),
        ({"messages": [{"role": "tool", "content": "x"}]}, 400, "messages.0.role"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]}, 400, "texts"),
        ({"max_tokens": 10_000}, 400, "exceed a context of"),
    ],
)
def test_what_the_champion_cannot_answer_is_refused_in_the_callers_dialect(
    further: dict[str, Any], status: int, words: str, house: House, base_client: openai.OpenAI
) -> None:
    with pytest.raises(openai.APIStatusError, match=words) as refused:
        base_client.chat.completions.create(**{"model": "champion", "messages": ASK, "max_tokens": 8, **further})
    assert refused.value.status_code == status
    assert [each for each in house.store.read(types=["ModelCalled"]) if isinstance(each.event, ModelCalled)] == []


@pytest.fixture
def base_client(house: House, weights: Weights) -> Iterator[openai.OpenAI]:
    with serving(house, weights.base, []) as client_of:
        yield client_of("ext-1")


OFFERS = Offers(logprobs=False, token_ids=False, seed=False, images=False, schema=False)


@dataclass(frozen=True)
class Slow:
    """A model that answers with its name as soon as it may."""

    name: str
    may: threading.Event
    offers: Offers = OFFERS

    def complete(self, request: CompletionRequest) -> Completion:
        assert self.may.wait(10)
        return Completion(self.name, (Sample(self.name, "stop"),), None, None)


def test_requests_in_flight_end_with_the_model_that_they_began_with() -> None:
    deployment = Deployment()
    with pytest.raises(NothingDeployed), deployment.take():
        pytest.fail("there was a model")
    may = threading.Event()
    artifact, _ = forget_everything("base")
    first, second = (DeployedModel(artifact, number, Slow(f"m{number}", may)) for number in (1, 2))
    deployment.swap(first)
    with deployment.take() as old:
        assert deployment.swap(second) is first
        with deployment.take() as new:
            assert (old.model.name, new.model.name) == ("m1", "m2")
        assert not deployment.drain(first, 0.01)
    assert deployment.drain(first, 1)


def test_the_champion_that_is_served_is_not_deployed_again(house: House) -> None:
    first_facts(house)
    may = threading.Event()
    may.set()
    loaded: list[str] = []

    def load(weights: str) -> Slow:
        loaded.append(weights)
        return Slow(weights, may)

    deployment = Deployment()
    for _ in range(3):
        deploy_champion(house, deployment, load)
    assert (loaded, len(deployed(house))) == (["base"], 1)
    deploy_champion(house, Deployment(), load)  # as after a restart
    assert (loaded, len(deployed(house))) == (["base", "base"], 1)


def test_a_champion_that_moves_while_the_database_is_away_is_served_once_it_is_back(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    first_facts(house)
    may, said = threading.Event(), list[str]()
    may.set()
    deployment, left = Deployment(), [2]
    deploy_champion(house, deployment, lambda weights: Slow(weights, may))

    def failing_at_first(*asked: Any) -> DeployedModel | None:
        if left[0] > 0:
            left[0] -= 1
            raise OperationalError("SELECT", {}, ConnectionError("gone"))
        return deploy_champion(*asked)

    monkeypatch.setattr(deployments, "deploy_champion", failing_at_first)
    with follow_champion(house, deployment, lambda weights: Slow(weights, may), said.append):
        point_to(house, "ck-1")
        until = time.monotonic() + 10
        while not said and time.monotonic() < until:
            time.sleep(0.02)
    assert (left, deployment.present.artifact.weights, len(said)) == ([0], "ck-1", 1)


def ready_model(weights: str) -> Slow:
    may = threading.Event()
    may.set()
    return Slow(weights, may)


@pytest.mark.parametrize("problem", [RuntimeError("out of memory"), OSError("no space"), KeyError("lora_A")])
def test_an_error_of_a_library_is_recorded_and_later_champions_are_served(house: House, problem: Exception) -> None:
    first_facts(house)
    deployment, said = Deployment(), list[str]()

    def load(weights: str) -> Slow:
        if weights == "ck-1":
            raise problem
        return ready_model(weights)

    deploy_champion(house, deployment, load)
    with follow_champion(house, deployment, load, said.append):
        point_to(house, "ck-1")
        wait_for(lambda: len(said) == 1)
        point_to(house, "ck-2")
        wait_for(lambda: len(said) == 2)
    _, failed, last = deployed(house)
    assert isinstance(failed, DeploymentFailed)
    assert (repr(problem) in failed.reason, repr(problem) in said[0], failed.kept) == (True, True, "base")
    assert (last.type, deployment.present.artifact.weights) == ("ArtifactDeployed", "ck-2")


def test_an_error_of_the_log_ends_no_following(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    first_facts(house)
    deployment, said, left = Deployment(), list[str](), [2]
    deploy_champion(house, deployment, ready_model)

    def failing_at_first(*asked: Any) -> DeployedModel | None:
        if left[0] > 0:
            left[0] -= 1
            raise StatementEnded(actual="a lock", code="55P03")
        return deploy_champion(*asked)

    monkeypatch.setattr(deployments, "deploy_champion", failing_at_first)
    with follow_champion(house, deployment, ready_model, said.append):
        point_to(house, "ck-1")
        wait_for(lambda: bool(said))
    assert (left, deployment.present.artifact.weights, len(said)) == ([0], "ck-1", 1)


def test_a_deployment_that_could_not_be_recorded_is_recorded_at_the_next_look(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    first_facts(house)
    deployment = Deployment()
    deploy_champion(house, deployment, ready_model)
    point_to(house, "ck-1")

    def away(*_: Any) -> Any:
        raise LogUnavailable(actual="gone")

    with monkeypatch.context() as patch:
        patch.setattr(type(house.store), "append", away)
        with pytest.raises(LogUnavailable):
            deploy_champion(house, deployment, ready_model)
    deploy_champion(house, deployment, ready_model)
    assert [each.artifact.weights for each in deployed(house)] == ["base", "ck-1"]
    assert deployment.present.artifact.weights == "ck-1"
