"""The vllm backend against a real server: what it answers, adapters while it runs, and how near it is to Transformers.

`FLYWHEEL_TEST_VLLM` names a Python that has vLLM. The server's start takes minutes, so one serves all tests.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import pytest

from agents.models.errors import AdapterUnfit, ModelUnknown, RequestRejected
from agents.models.local.dialogue import Dialogue
from agents.models.local.network import BASE
from agents.models.model import ChatMessage, CompletionRequest
from agents.models.openai import OpenAI, OpenAISettings
from agents.models.servers.vllm import VllmAdapters, VllmServer
from agents.models.wire import Patience
from api.training.bases import find_source
from benchmarks.serving.parity import PROMPTS, answer, apart, is_greedy, reference
from eventlog.errors import CheckpointAltered
from eventlog.events import Sampling
from eventlog.weights_folder import Base
from tests.tiny import make_base, planted_checkpoint
from tests.vllm.server import NAME, running, wide_base
from trainer.checkpoint import Checkpoint
from trainer.gguf_base import base_from_gguf

PYTHON = os.environ.get("FLYWHEEL_TEST_VLLM")

pytestmark = [
    pytest.mark.skipif(PYTHON is None, reason="FLYWHEEL_TEST_VLLM names no Python that has vLLM"),
    pytest.mark.timeout(3600),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

ASK = (ChatMessage("system", ("Be brief.",)), ChatMessage("user", ("What is this?",)))
DRAWN = Sampling(temperature_micro=1_000_000, max_tokens=12, seed=3, wants_logprobs=True)
GREEDY = DRAWN.model_copy(update={"temperature_micro": 0})
MICRO = 1_000_000


@dataclass(frozen=True)
class Bounds:
    """How much is compared of a model, how strong its adapter is, and how far its logprobs may be."""

    tokens: int
    scale: float
    largest: float
    mean: float


SMOLLM2 = (pytest.mark.smollm, pytest.mark.costly("Transformers computes the 80 answers of a real model again"))
BOUNDS = {"tiny": Bounds(24, 0.1, 1e-5, 1e-5), "smollm2": Bounds(32, 0.02, 1e-4, 1.5e-5)}
"""As in `make bench-serving`, but for the mean of SmolLM2: 9.4e-06 was measured, and 1.004e-05 with an adapter."""


@dataclass(frozen=True)
class Real:
    """A running server, the base that it serves, and two checkpoints on it."""

    url: str
    base: Base
    saved: dict[str, Checkpoint]

    def opened(self, most: int = 8, saved: dict[str, Checkpoint] | None = None) -> VllmServer:
        known = self.saved if saved is None else saved
        settings = OpenAISettings(
            model=NAME,
            base_url=self.url,
            offers_token_ids=True,
            tokenizer=self.base.tokenizer,
            chat_template=self.base.chat_template,
            processed_logprobs=True,
        )
        adapters = VllmAdapters(self.base.digest, lambda digest: known[digest].path, most=most)
        return VllmServer(settings, adapters, Patience(timeout_s=300))


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Real]:
    folder = tmp_path_factory.mktemp("vllm")
    base = wide_base(folder / "bases")
    made = [planted_checkpoint(folder / "checkpoints", base, seed, scale=0.3) for seed in (1, 2)]
    saved = {each.digest: each for each in made}
    assert PYTHON is not None
    with running(PYTHON, base.path) as url:
        yield Real(url, base, saved)


@pytest.fixture(scope="module")
def smollm2(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Real]:
    base = base_from_gguf(find_source("smollm2", None, None).path, tmp_path_factory.mktemp("smollm2"))
    assert PYTHON is not None
    with running(PYTHON, base.path) as url:
        yield Real(url, base, {})


def test_an_answer_has_text_token_ids_and_a_logprob_of_each(real: Real) -> None:
    with closing(real.opened()) as server:
        found = server.model_of(BASE).complete(CompletionRequest(ASK, DRAWN.model_copy(update={"samples": 3})))
    assert len(found.samples) == 3
    assert found.prompt_token_ids
    assert (found.input_tokens, found.model) == (len(found.prompt_token_ids), NAME)
    assert found.served is not None
    assert found.served.processed  # the server was asked, and not believed
    for sample in found.samples:
        assert sample.tokens is not None
        assert sample.token_ids is not None
        assert 0 < len(sample.tokens) == len(sample.token_ids) <= DRAWN.max_tokens
        assert all(token.logprob <= 0 for token in sample.tokens)


def test_a_seed_gives_the_same_tokens_again_also_beside_others(real: Real) -> None:
    requests = [CompletionRequest(ASK, DRAWN.model_copy(update={"seed": seed})) for seed in range(4)]
    with closing(real.opened()) as server, ThreadPoolExecutor(4) as threads:
        model = server.model_of(BASE)
        alone = [model.complete(request).samples[0].token_ids for request in requests]
        beside = [each.samples[0].token_ids for each in threads.map(model.complete, requests)]
    assert beside == alone
    assert len(set(alone)) > 1


def test_adapters_are_loaded_while_it_runs_move_the_answer_and_leave_by_a_bound(real: Real) -> None:
    ask = CompletionRequest((ChatMessage("user", ("open /boats/17",)),), GREEDY)
    with closing(real.opened(most=1)) as server:
        first = {weights: server.model_of(weights).complete(ask) for weights in (BASE, *real.saved, BASE)}
        again = {weights: server.model_of(weights).complete(ask) for weights in (*real.saved, BASE)}
    ids = {weights: each.samples[0].token_ids for weights, each in first.items()}
    assert len(set(ids.values())) == 3
    assert {weights: each.samples[0].token_ids for weights, each in again.items()} == ids
    assert [first[weights].model for weights in real.saved] == [f"{NAME}+{weights[:12]}" for weights in real.saved]
    missing = OpenAISettings(model=f"{NAME}+nobody", base_url=real.url)
    with closing(OpenAI(missing)) as nobody, pytest.raises(ModelUnknown, match="does not exist"):
        nobody.complete(CompletionRequest(ASK, Sampling(temperature_micro=0, max_tokens=4)))


def test_a_wrong_adapter_is_refused_here_or_by_the_server_and_never_the_silent_base(real: Real, tmp_path: Path) -> None:
    alien = planted_checkpoint(tmp_path / "alien", make_base(tmp_path / "bases", "llama", seed=5), seed=1)
    altered = planted_checkpoint(tmp_path / "altered", real.base, seed=9)
    tensors = altered.path / "adapter_model.safetensors"
    tensors.write_bytes(tensors.read_bytes()[:-1] + b"\x7f")
    wrong = {alien.digest: alien, altered.digest: altered}
    with closing(real.opened(saved=wrong)) as server:
        with pytest.raises(AdapterUnfit, match="trained on the base"):
            server.model_of(alien.digest)
        with pytest.raises(CheckpointAltered):
            server.model_of(altered.digest)
        body = {"lora_name": f"{NAME}+wrong", "lora_path": str(tmp_path / "nothing")}
        with pytest.raises((RequestRejected, ModelUnknown)):  # what the server itself says of a folder without adapter
            server._endpoint.tell("load_lora_adapter", body)


@pytest.mark.parametrize("name", ["tiny", pytest.param("smollm2", marks=SMOLLM2)])
def test_logged_ids_are_those_of_the_template_and_decode_to_the_text_with_the_end_of_a_turn(
    name: str, request: pytest.FixtureRequest
) -> None:
    real: Real = request.getfixturevalue("real" if name == "tiny" else name)
    dialogue, ended = Dialogue(real.base), 0
    with closing(real.opened()) as server:
        for question in ("What is the capital of France?", "Say yes.", "open /boats/17"):
            messages = (ChatMessage("user", (question,)),)
            found = server.model_of(BASE).complete(
                CompletionRequest(messages, GREEDY.model_copy(update={"max_tokens": 40}))
            )
            (sample,) = found.samples
            assert sample.token_ids is not None
            has_ended = sample.token_ids[-1] in dialogue.ends
            assert found.prompt_token_ids == dialogue.prompt(messages, "")
            assert has_ended == (sample.finish == "stop")
            assert dialogue.text(sample.token_ids[: len(sample.token_ids) - has_ended]) == sample.text
            ended += has_ended
    assert ended > 0 or name == "tiny"  # random weights rarely end a turn


@pytest.mark.parametrize("which", ["base", "base + adapter"])
@pytest.mark.parametrize("name", ["tiny", pytest.param("smollm2", marks=SMOLLM2)])
def test_greedy_answers_and_logprobs_are_those_of_transformers(
    name: str, which: str, request: pytest.FixtureRequest, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    real: Real = request.getfixturevalue("real" if name == "tiny" else name)
    bounds = BOUNDS[name]
    saved = planted_checkpoint(tmp_path, real.base, seed=1, scale=bounds.scale)
    checkpoint = None if which == "base" else saved
    network = reference(real.base, checkpoint)
    with closing(real.opened(saved={saved.digest: saved})) as server:
        model = server.model_of(BASE if checkpoint is None else checkpoint.digest)
        greedy, drawn = answer(model, 0, bounds.tokens), answer(model, MICRO, bounds.tokens)
    equal = sum(is_greedy(network, each) for each in greedy)
    distances = [distance for each in drawn for distance in apart(network, each)]
    with capsys.disabled():
        print(f"\n| vLLM, {name}, {which}, f32 | greedy answers equal {equal} of {len(PROMPTS)} | ", end="")
        print(f"largest distance of a logprob {max(distances):.4g} | mean {fmean(distances):.4g} |")
    assert equal == len(PROMPTS)
    assert max(distances) <= bounds.largest
    assert fmean(distances) <= bounds.mean
