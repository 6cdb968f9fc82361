"""The executor of an agent from outside, with what the settings allow it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import Final

from agents.executors.local import FolderOf, no_checkpoints
from agents.executors.outside.agent_spec import AgentSpec
from agents.executors.outside.executor import AgentExecutor
from agents.executors.outside.fence import fence_words
from agents.executors.outside.task_facts import AgentLimits
from agents.executors.policy import Opening
from agents.models.model import Model, WithoutLogprobs

from ..errors import NoModel
from ..serving.run_endpoint import open_endpoint
from ..settings import Settings, agent_environment
from .models import agent_model

_NAMED: Final = "FLYWHEEL_MODEL, with FLYWHEEL_MODEL_URL where it is at a server"


@contextmanager
def agent_executor(
    agent: AgentSpec,
    settings: Settings,
    surfaces: Opening | None = None,
    model: str | None = None,
    folder_of: FolderOf = no_checkpoints,
) -> Iterator[AgentExecutor]:
    """The executor of an agent. Where there is a fence, it sees neither Flywheel's home nor any project's keys.

    In an environment without pages it acts on what `surfaces` opens. Each run gets an endpoint before the `model`, else
    before that of the settings, if there is one. A base model in this process answers by the weights of the run, with
    checkpoints from `folder_of`. Raises BadSetting, what local_host raises, and NoModel if an agent is to be told by an
    endpoint where there is none.
    """
    playing = without_model(agent, settings, surfaces)
    with ExitStack() as stack:
        served = open_endpoint(settings, model, folder_of)
        if served is None and agent.by_proxy:
            raise NoModel(actual="--advice proxy tells an agent in its requests to a model", expected=_NAMED)
        if served is None:
            yield playing
            return
        endpoint = stack.enter_context(served)
        models = endpoint.models
        yield replace(
            playing,
            agent=agent.with_model(models.base or f"{settings.model_api}:{models.name}"),
            opening=endpoint.open_run,
            load=models.load,
            server=partial(_model_asked_first, settings, model) if models.base is None else None,
            offers_logprobs=models.offers_logprobs,
        )


@contextmanager
def _model_asked_first(settings: Settings, model: str | None) -> Iterator[Model]:
    """The model server as it is asked one question first. Logprobs are asked for only where it loads checkpoints.

    Calls of other servers are trained on by nobody, so what an agent asks of them is its own affair.
    """
    with agent_model(settings, model) as asked:
        yield asked if settings.model_base is not None else WithoutLogprobs(asked)


def without_model(agent: AgentSpec, settings: Settings, surfaces: Opening | None = None) -> AgentExecutor:
    """The executor of an agent that has no model. Raises BadSetting."""
    keys = settings.key_folder
    limits = AgentLimits(seconds=settings.agent_seconds)
    return AgentExecutor(
        agent,
        limits,
        agent_environment(settings),
        fence_words(),
        surfaces=surfaces,
        records_site=settings.record_site,
        hidden=(keys, keys.parent, settings.home),  # with the keys of all projects, and a folder after those within it
    )
