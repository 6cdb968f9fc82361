"""Open and close the models named by the settings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Literal

from pydantic import SecretStr

from agents.models import anthropic, openai
from agents.models.anthropic import Anthropic, AnthropicSettings
from agents.models.local.host import PREFIX, Host
from agents.models.model import Model, Served
from agents.models.openai import OpenAI, OpenAISettings
from agents.models.wire import Patience

from ..errors import NoJudge, NoModel
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
    folder = local_folder(settings, name)
    if folder is not None:
        with local_host(folder, settings) as host:
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
    """Folder of the base model if the model is `transformers:FOLDER`, else None."""
    wanted = (settings.model if name is None else name) or ""
    return Path(wanted.removeprefix(PREFIX)) if wanted.startswith(PREFIX) else None


@contextmanager
def local_host(folder: Path, settings: Settings) -> Iterator[Host]:
    """Load a base model in this process. Raises BaseUnfit, LibrariesMissing."""
    with closing(Host(folder, threads=settings.model_threads)) as host:
        yield host


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
