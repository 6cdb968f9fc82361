"""Checkpoints on a vLLM server: loaded at first use when their digest was checked, evicted by a bound; its logprobs."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path, PurePosixPath
from threading import Event
from typing import Any

import pytest
from starlette.responses import JSONResponse, Response

from agents.models.errors import AdapterUnfit, LogprobsRaw
from agents.models.local.network import BASE
from agents.models.model import ChatMessage, CompletionRequest
from agents.models.openai import OpenAI, OpenAISettings
from agents.models.servers.errors import AdaptersFixed
from agents.models.servers.vllm import VllmAdapters, VllmServer
from eventlog.errors import CheckpointAltered
from eventlog.events import Sampling
from eventlog.weights_folder import Base
from tests.model_server import Asked, ModelServer, chat_completion, model_server
from tests.tiny import make_base, planted_checkpoint
from trainer.checkpoint import Checkpoint

pytestmark = [pytest.mark.timeout(300), pytest.mark.filterwarnings("ignore::FutureWarning")]

ASK = CompletionRequest((ChatMessage("user", ("hello",)),), Sampling(temperature_micro=0, max_tokens=4))
LOGGED = CompletionRequest(
    (ChatMessage("user", ("hello",)),), Sampling(temperature_micro=1_000_000, max_tokens=4, wants_logprobs=True)
)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Base:
    return make_base(tmp_path_factory.mktemp("bases"))


@pytest.fixture(scope="module")
def saved(base: Base, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Checkpoint]:
    folder = tmp_path_factory.mktemp("checkpoints")
    made = [planted_checkpoint(folder, base, seed=seed) for seed in (1, 2, 3)]
    return {each.digest: each for each in made}


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with model_server(lambda asked: asked.body["model"]) as running:
        yield running


def opened(server: ModelServer, base: Base, saved: dict[str, Checkpoint], most: int = 8) -> VllmServer:
    def place_of(path: Path) -> PurePosixPath:
        return PurePosixPath("/models") / path.name

    adapters = VllmAdapters(base.digest, lambda digest: saved[digest].path, place_of, most)
    return VllmServer(OpenAISettings(model="m1", base_url=server.url), adapters)


def said(server: VllmServer, weights: str) -> str:
    return server.model_of(weights).complete(ASK).samples[0].text


def test_each_weights_are_asked_under_their_own_name_and_loaded_once(
    server: ModelServer, base: Base, saved: dict[str, Checkpoint]
) -> None:
    one, other, _ = saved
    with closing(opened(server, base, saved)) as found:
        assert said(found, BASE) == "m1"
        assert server.loaded == {}
        assert [said(found, weights) for weights in (one, other, one)] == [
            f"m1+{one[:12]}",
            f"m1+{other[:12]}",
            f"m1+{one[:12]}",
        ]
    assert server.loaded == {f"m1+{one[:12]}": f"/models/{one}", f"m1+{other[:12]}": f"/models/{other}"}
    with closing(opened(server, base, saved)) as again:
        assert said(again, one) == f"m1+{one[:12]}"  # already there


def test_a_bound_evicts_the_oldest_idle_adapter_and_loads_it_again(
    server: ModelServer, base: Base, saved: dict[str, Checkpoint]
) -> None:
    with closing(opened(server, base, saved, most=2)) as found:
        models = {weights: found.model_of(weights) for weights in saved}
        assert len(server.loaded) == 2
        with ThreadPoolExecutor(6) as threads:
            texts = list(threads.map(lambda weights: models[weights].complete(ASK).samples[0].text, [*saved] * 6))
        assert texts == [f"m1+{weights[:12]}" for weights in saved] * 6
        assert len(server.loaded) <= 2


def test_a_server_that_was_restarted_loads_its_adapters_again(
    server: ModelServer, base: Base, saved: dict[str, Checkpoint]
) -> None:
    one, other, third = saved
    with closing(opened(server, base, saved, most=2)) as found:
        models = [found.model_of(weights) for weights in (one, other)]
        server.loaded.clear()
        with ThreadPoolExecutor(6) as threads:
            texts = list(threads.map(lambda model: model.complete(ASK).samples[0].text, models * 6))
        assert texts == [f"m1+{one[:12]}", f"m1+{other[:12]}"] * 6
        server.loaded.clear()
        assert said(found, third) == f"m1+{third[:12]}"  # another one left, which the server had lost
    assert [*server.loaded] == [f"m1+{third[:12]}"]


def test_while_one_checkpoint_is_loaded_others_answer(
    server: ModelServer, base: Base, saved: dict[str, Checkpoint], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other, _ = saved
    is_loading, may_end = Event(), Event()
    with closing(opened(server, base, saved)) as found, ThreadPoolExecutor(2) as threads:
        load = found._tell

        def slowly(weights: str) -> None:
            if weights == other:
                is_loading.set()
                assert may_end.wait(20)
            load(weights)

        monkeypatch.setattr(found, "_tell", slowly)
        waiting = [threads.submit(said, found, other) for _ in range(2)]
        assert is_loading.wait(20)
        assert said(found, one) == f"m1+{one[:12]}"
        assert not any(each.done() for each in waiting)
        may_end.set()
        assert {each.result() for each in waiting} == {f"m1+{other[:12]}"}


def test_many_callers_of_a_new_checkpoint_evict_one_other(
    server: ModelServer, base: Base, saved: dict[str, Checkpoint]
) -> None:
    *others, new = saved
    with closing(opened(server, base, saved, most=2)) as found, ThreadPoolExecutor(8) as threads:
        assert [said(found, weights) for weights in others] == [f"m1+{weights[:12]}" for weights in others]
        assert {*threads.map(lambda _: said(found, new), range(8))} == {f"m1+{new[:12]}"}
    told = [each.path.rpartition("/")[2] for each in server.asked]
    assert (told.count("load_lora_adapter"), told.count("unload_lora_adapter")) == (3, 1)


def test_a_changed_checkpoint_or_one_of_another_base_is_never_loaded(
    server: ModelServer, base: Base, saved: dict[str, Checkpoint], tmp_path: Path
) -> None:
    altered = planted_checkpoint(tmp_path / "altered", base, seed=9)
    tensors = altered.path / "adapter_model.safetensors"
    tensors.write_bytes(tensors.read_bytes()[:-1] + b"\0\0")
    alien = planted_checkpoint(tmp_path / "alien", make_base(tmp_path / "bases", seed=5), seed=1)
    wrong = {altered.digest: altered, alien.digest: alien}
    with closing(opened(server, base, wrong)) as found:
        with pytest.raises(CheckpointAltered):
            found.model_of(altered.digest)
        with pytest.raises(AdapterUnfit, match="trained on the base"):
            found.model_of(alien.digest)
    assert server.loaded == {}


def test_a_server_that_loads_nothing_while_it_runs_is_named(
    server: ModelServer, base: Base, saved: dict[str, Checkpoint], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_adapter", lambda _asked: JSONResponse({"detail": "Not Found"}, 404))
    with closing(opened(server, base, saved)) as found, pytest.raises(AdaptersFixed, match="VLLM_ALLOW_RUNTIME"):
        found.model_of(next(iter(saved)))


@pytest.mark.parametrize(("stretch", "is_raw"), [(1.0, True), (2.0, False), (None, False)])
def test_processed_logprobs_are_asked_for_once_and_not_believed(stretch: float | None, is_raw: bool) -> None:
    def answer(asked: Asked) -> Response:
        found: dict[str, Any] = chat_completion(asked.body, "x")
        if stretch is not None and asked.body.get("top_logprobs"):
            factor = stretch if asked.body["temperature"] < 1 else 1.0
            likely = [{"token": token, "logprob": -gap * factor} for token, gap in (("x", 0.5), ("y", 2.0))]
            found["choices"][0]["logprobs"]["content"][0]["top_logprobs"] = likely
        return JSONResponse(found)

    digests: dict[str, Any] = {"tokenizer": "a" * 64, "chat_template": "b" * 64}
    with model_server(answer) as server:
        settings = OpenAISettings(model="m1", base_url=server.url, processed_logprobs=True, **digests)
        with closing(OpenAI(settings)) as model:
            if is_raw:
                with pytest.raises(LogprobsRaw, match="stretched the differences of tokens by 1,"):
                    model.complete(LOGGED)
                return
            for _ in range(3):
                assert model.complete(LOGGED).served is not None
        assert len([asked for asked in server.asked if "top_logprobs" in asked.body]) == 2
        with closing(OpenAI(settings.model_copy(update={"processed_logprobs": False}))) as plain:
            plain.complete(LOGGED)
        assert len([asked for asked in server.asked if "top_logprobs" in asked.body]) == 2
