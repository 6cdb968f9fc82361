"""What every model backend keeps to, whatever is behind it: a script, a server over HTTP, a library in this process."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager

import pytest
from pydantic import SecretStr

from agents.models.anthropic import Anthropic, AnthropicSettings
from agents.models.errors import NotOffered
from agents.models.llamacpp.library import LLAMA_CPP_PYTHON
from agents.models.llamacpp.network import LlamaEngine
from agents.models.local.host import Host
from agents.models.model import ChatMessage, CompletionRequest, Image, Model, Schema
from agents.models.openai import OpenAI, OpenAISettings
from agents.models.scripted import Scripted
from agents.models.servers.vllm import VllmAdapters, VllmServer
from api.serving.conversion import Conversions
from eventlog.events import Sampling
from tests.model_server import ModelServer, model_server
from tests.tiny import convert_here, make_base, planted_checkpoint

SAID = "blue or green"
ASK = (ChatMessage("system", ("Be brief.",)), ChatMessage("user", ("What is this?",)))
FREE = Sampling(temperature_micro=1_000_000, max_tokens=20, seed=3, wants_logprobs=True)

pytestmark = [
    pytest.mark.timeout(300),  # the first to run imports what a model needs
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    with closing(Host(make_base(tmp_path_factory.mktemp("bases")).path)) as opened:
        yield opened


LLAMACPP = pytest.param("llamacpp", marks=pytest.mark.llamacpp)
ADAPTED = pytest.param("llamacpp with an adapter", marks=pytest.mark.llamacpp)
COMPILED = pytest.param("llama-cpp-python with an adapter", marks=pytest.mark.llama_cpp_python)


@pytest.fixture(
    params=[
        "scripted",
        "openai",
        "anthropic",
        "vllm",
        "transformers",
        "transformers with an adapter",
        LLAMACPP,
        ADAPTED,
        COMPILED,
    ],
    scope="module",
)
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Model]:
    match request.param:
        case "scripted":
            yield Scripted(lambda _: SAID)
        case "openai":
            with (
                model_server(lambda _: SAID) as server,
                closing(OpenAI(OpenAISettings(model="m1", base_url=server.url, offers_token_ids=True))) as opened,
            ):
                yield opened
        case "anthropic":
            with model_server(lambda _: SAID) as server:
                settings = AnthropicSettings(model="m1", api_key=SecretStr("k"), base_url=server.url)
                with closing(Anthropic(settings)) as vendor:
                    yield vendor
        case "transformers":
            yield request.getfixturevalue("host").base()
        case "vllm":
            with model_server(lambda _: SAID) as server, checkpoint_on(server, tmp_path_factory) as served:
                yield served
        case "llamacpp" | "llamacpp with an adapter" | "llama-cpp-python with an adapter":
            package = LLAMA_CPP_PYTHON if request.param.startswith("llama-cpp-python") else None
            made = make_base(tmp_path_factory.mktemp("again"), "llama")
            converted = Conversions(tmp_path_factory.mktemp("weights"), made, convert=convert_here)
            with closing(Host(made.path, LlamaEngine(converted.base_file(), package=package))) as other:
                saved = planted_checkpoint(tmp_path_factory.mktemp("checkpoints"), made, seed=1)
                files_of = converted.files_of(lambda _: saved.path)
                is_base = request.param == "llamacpp"
                yield other.base() if is_base else other.adapted_model(saved.digest, files_of)
        case _:
            own: Host = request.getfixturevalue("host")
            base = make_base(tmp_path_factory.mktemp("again"))
            saved = planted_checkpoint(tmp_path_factory.mktemp("checkpoints"), base, seed=1)
            yield own.adapted_model(saved.digest, lambda _: saved.path)


@contextmanager
def checkpoint_on(server: ModelServer, folders: pytest.TempPathFactory) -> Iterator[Model]:
    """A checkpoint on a vLLM server."""
    made = make_base(folders.mktemp("again"))
    saved = planted_checkpoint(folders.mktemp("checkpoints"), made, seed=1)
    settings = OpenAISettings(model="m1", base_url=server.url, offers_token_ids=True)
    with closing(VllmServer(settings, VllmAdapters(made.digest, lambda _: saved.path))) as opened:
        yield opened.model_of(saved.digest)


def offered(model: Model) -> Sampling:
    """Free sampling with what the backend offers of it."""
    seed = FREE.seed if model.offers.seed else None
    return FREE.model_copy(update={"wants_logprobs": model.offers.logprobs, "seed": seed})


def test_as_many_samples_come_as_were_asked_for_each_with_its_tokens(model: Model) -> None:
    found = model.complete(CompletionRequest(ASK, offered(model).model_copy(update={"samples": 3})))
    assert len(found.samples) == 3
    assert bool(found.prompt_token_ids) is model.offers.token_ids
    assert found.input_tokens
    for sample in found.samples:
        assert (sample.tokens is not None) is model.offers.logprobs
        assert (sample.token_ids is not None) is model.offers.token_ids
        if sample.tokens is not None and sample.token_ids is not None:
            assert len(sample.tokens) == len(sample.token_ids) <= FREE.max_tokens
        assert all(token.logprob <= 0 for token in sample.tokens or ())
        assert sample.text
        assert sample.finish in {"stop", "length"}


def test_what_was_not_asked_for_is_not_there(model: Model) -> None:
    asked = offered(model).model_copy(update={"wants_logprobs": False})
    (sample,) = model.complete(CompletionRequest(ASK, asked)).samples
    assert sample.tokens is None


def test_the_same_request_gets_the_same_answer_from_any_number_of_threads(model: Model) -> None:
    free = offered(model)
    seeds = range(6) if model.offers.seed else [None] * 6
    requests = [CompletionRequest(ASK, free.model_copy(update={"seed": seed})) for seed in seeds]
    alone = [model.complete(request).samples for request in requests]
    with ThreadPoolExecutor(6) as threads:
        beside = [completion.samples for completion in threads.map(model.complete, requests)]
    assert [[(s.text, s.token_ids) for s in samples] for samples in beside] == [
        [(s.text, s.token_ids) for s in samples] for samples in alone
    ]


def test_what_is_not_offered_is_refused_by_name(model: Model) -> None:
    offers = model.offers
    picture = (ChatMessage("user", (Image("image/png", b"x"),)),)
    free = offered(model)
    asked = {
        "images": (offers.images, CompletionRequest(picture, free)),
        "structured output": (offers.schema, CompletionRequest(ASK, free, Schema("x", {}))),
        "logprobs": (offers.logprobs, CompletionRequest(ASK, free.model_copy(update={"wants_logprobs": True}))),
        "seed": (offers.seed, CompletionRequest(ASK, free.model_copy(update={"seed": 3}))),
    }
    for what, (is_offered, request) in asked.items():
        if not is_offered:
            with pytest.raises(NotOffered, match=f"{model.name}.*{what}".replace("+", r"\+")):
                model.complete(request)
    is_ours = model.name.partition(":")[0] != "anthropic"
    assert (offers.seed, offers.logprobs, offers.token_ids) == (is_ours, is_ours, is_ours)


def test_a_name_says_which_backend_it_is(model: Model) -> None:
    assert model.name.partition(":")[0] in {"scripted", "openai", "anthropic", "transformers", "llamacpp"}
