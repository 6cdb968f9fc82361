"""Open and close the models named by the settings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path, PurePosixPath
from typing import Literal

from pydantic import SecretStr

from agents.executors.local import FolderOf, no_checkpoints
from agents.models import anthropic, openai
from agents.models.anthropic import Anthropic, AnthropicSettings
from agents.models.llamacpp.library import load_library
from agents.models.llamacpp.network import PREFIX as LLAMACPP
from agents.models.llamacpp.network import LlamaEngine, quantised_engine
from agents.models.local.engine import ModelEngine
from agents.models.local.host import Host
from agents.models.local.network import PREFIX as TRANSFORMERS
from agents.models.local.network import TransformersEngine
from agents.models.model import Model, Served
from agents.models.openai import OpenAI, OpenAISettings
from agents.models.servers.vllm import VllmAdapters, VllmServer
from agents.models.wire import Patience
from eventlog.weights_folder import read_base

from ..errors import NoJudge, NoModel
from ..serving.conversion import Conversions
from ..settings import Settings


@contextmanager
def open_model(
    api: Literal["openai", "anthropic"],
    name: str,
    url: str | None,
    key: SecretStr | None,
    *,
    offers_logprobs: bool = True,
    offers_token_ids: bool = False,
    served: Served | None = None,
    patience: Patience | None = None,
) -> Iterator[Model]:
    """Open a model at an endpoint. Raises NoModel, BadEndpoint."""
    model: OpenAI | Anthropic
    if api == "openai":
        model = OpenAI(
            OpenAISettings(
                model=name,
                api_key=key,
                base_url=url or openai.BASE_URL,
                offers_logprobs=offers_logprobs,
                offers_token_ids=offers_token_ids,
                tokenizer=None if served is None else served.tokenizer,
                chat_template=None if served is None else served.chat_template,
                processed_logprobs=served is not None and served.processed,
            ),
            patience,
        )
    elif key is None:
        raise NoModel(actual="there is no key", expected="a key, which Anthropic's API requires")
    else:
        model = Anthropic(AnthropicSettings(model=name, api_key=key, base_url=url or anthropic.BASE_URL), patience)
    try:
        yield model
    finally:
        model.close()


@contextmanager
def agent_model(settings: Settings, name: str | None = None) -> Iterator[Model]:
    """Open the agent's model: the configured one, another `name` at its endpoint, or a base model in this process.

    Raises NoModel, BadEndpoint, BaseUnfit, LibrariesMissing.
    """
    if local_folder(settings, name) is not None:
        with local_host(settings, name) as (host, _):
            yield host.base()
        return
    wanted = settings.model if name is None else name
    if wanted is None:
        raise NoModel(actual="FLYWHEEL_MODEL is not set", expected="the name of a model that acts as an agent")
    with open_model(
        settings.model_api,
        wanted,
        settings.model_url,
        settings.model_key,
        offers_logprobs=settings.model_logprobs,
        offers_token_ids=settings.model_token_ids,
        served=_served_tokens(settings),
    ) as model:
        yield model


def local_folder(settings: Settings, name: str | None = None) -> Path | None:
    """Folder of the base model if the model is `transformers:FOLDER` or `llamacpp:FOLDER`, else None."""
    wanted = (settings.model if name is None else name) or ""
    found = next((prefix for prefix in (TRANSFORMERS, LLAMACPP) if wanted.startswith(prefix)), None)
    return None if found is None else Path(wanted.removeprefix(found))


def has_weights(settings: Settings, name: str | None = None) -> bool:
    """True if each run is played by the weights of its artifact: in this process, or by an endpoint that loads them."""
    return local_folder(settings, name) is not None or settings.model_base is not None


@contextmanager
def weights_endpoint(settings: Settings, name: str | None, folder_of: FolderOf) -> Iterator[VllmServer]:
    """The endpoint of the settings as a server of checkpoints from `folder_of`. Raises NoModel, BadEndpoint."""
    wanted, base = settings.model if name is None else name, settings.model_base
    if wanted is None or base is None:
        raise NoModel(actual="FLYWHEEL_MODEL_BASE or the model is not set", expected="a model and its base's digest")
    adapters = VllmAdapters(base, folder_of, _place_there(settings))
    endpoint = _openai_settings(settings, wanted)
    with closing(VllmServer(endpoint, adapters)) as server:
        yield server


def _place_there(settings: Settings) -> Callable[[Path], PurePosixPath]:
    """Function that returns the path by which the endpoint sees a folder of FLYWHEEL_MODELS."""
    store, folder = settings.model_store, settings.model_folder.resolve()

    def place_of(path: Path) -> PurePosixPath:
        own = path.resolve()
        if store is None or not own.is_relative_to(folder):
            return PurePosixPath(own)
        return PurePosixPath(store) / own.relative_to(folder)

    return place_of


def _openai_settings(settings: Settings, name: str) -> OpenAISettings:
    served = _served_tokens(settings)
    return OpenAISettings(
        model=name,
        api_key=settings.model_key,
        base_url=settings.model_url or openai.BASE_URL,
        offers_logprobs=settings.model_logprobs,
        offers_token_ids=settings.model_token_ids,
        tokenizer=None if served is None else served.tokenizer,
        chat_template=None if served is None else served.chat_template,
        processed_logprobs=served is not None and served.processed,
    )


@contextmanager
def local_host(
    settings: Settings, name: str | None = None, folder_of: FolderOf = no_checkpoints
) -> Iterator[tuple[Host, FolderOf]]:
    """Load a base model in this process; yields its host, and where that reads checkpoints, which are in `folder_of`.

    For llama.cpp both are converted at first use. Raises BaseUnfit, LibrariesMissing, NotConverted.
    """
    folder = local_folder(settings, name)
    if folder is None:
        raise NoModel(actual=f"{name} is no local model", expected=f"{TRANSFORMERS}FOLDER or {LLAMACPP}FOLDER")
    wanted = (settings.model if name is None else name) or ""
    engine: ModelEngine = TransformersEngine(threads=settings.model_threads)
    if wanted.startswith(LLAMACPP):
        load_library()  # before anything is converted
        conversions = Conversions(settings.model_folder, read_base(folder), settings.model_gguf)
        made = quantised_engine if settings.model_gguf == "q8_0" else LlamaEngine
        engine = made(conversions.base_file(), settings.model_threads)
        folder_of = conversions.files_of(folder_of)
    with closing(Host(folder, engine)) as host:
        yield host, folder_of


def _served_tokens(settings: Settings) -> Served | None:
    """Tokenizer and chat template configured for the endpoint; None unless both digests are set."""
    tokenizer, template = settings.model_tokenizer, settings.model_chat_template
    if tokenizer is None or template is None:
        return None
    return Served(tokenizer, template, settings.model_processed_logprobs)


@contextmanager
def judge_from(settings: Settings) -> Iterator[Model]:
    """Open the configured judge model. Raises NoJudge, BadEndpoint."""
    name, key, url = settings.judge_model, settings.judge_key, settings.judge_url
    if name is None:
        raise NoJudge(actual="FLYWHEEL_JUDGE_MODEL is not set", expected="the name of a model that judges")
    if settings.judge_api == "anthropic" and key is None:
        raise NoJudge(actual="FLYWHEEL_JUDGE_KEY is not set", expected="a key, which Anthropic's API requires")
    with open_model(settings.judge_api, name, url, key) as model:
        yield model
