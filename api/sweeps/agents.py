"""The executor of an agent from outside, with what the settings allow it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from agents.executors.outside.agent_spec import AgentSpec
from agents.executors.outside.executor import AgentExecutor, AgentLimits
from agents.executors.outside.fence import fence_words
from agents.executors.outside.model_access import no_model
from agents.executors.policy import Opening

from ..errors import NoModel
from ..serving.run_endpoint import open_endpoint
from ..settings import Settings, agent_environment

_SERVER: Final = "FLYWHEEL_MODEL and FLYWHEEL_MODEL_URL, which name a model server"


@contextmanager
def agent_executor(agent: AgentSpec, settings: Settings, surfaces: Opening | None = None) -> Iterator[AgentExecutor]:
    """The executor of an agent. Where there is a fence, it sees neither this project's home nor its keys.

    In an environment without pages it acts on what `surfaces` opens. If the settings name a model server, each run gets
    an endpoint before it. Raises BadSetting, and NoModel if an agent is to be told by an endpoint where there is none.
    """
    own = agent.folder.resolve()
    hidden = [each for each in (settings.home, settings.key_folder) if not own.is_relative_to(each.resolve())]
    variables = agent_environment(settings)
    with ExitStack() as stack:
        served = open_endpoint(settings)
        if served is None and agent.by_proxy:
            raise NoModel(actual="--advice proxy tells an agent in its requests to a model", expected=_SERVER)
        opening = no_model if served is None else stack.enter_context(served).open_run
        limits = AgentLimits(seconds=settings.agent_seconds)
        yield AgentExecutor(agent, limits, variables, fence_words(hidden), opening, surfaces=surfaces)
