"""Executors that a command can choose, created from the settings."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from enum import StrEnum
from typing import Final, Literal

from agents.envs.contract import Instance
from agents.envs.episodes.environment import EpisodeEnvironment
from agents.executors.browser import BrowserExecutor, Chromium
from agents.executors.delegation.executor import DelegationExecutor, JournalOf
from agents.executors.demonstration import Demonstrator
from agents.executors.endpoint import EndpointPolicies
from agents.executors.executor import Advised, Executor
from agents.executors.inspection import HttpInspector, Inspecting, Inspectors
from agents.executors.kits import Inside, find_kits
from agents.executors.local import FolderOf, LocalPolicies, no_checkpoints
from agents.executors.outside.agent_spec import AgentSpec, agent_options, model_in
from agents.executors.outside.executor import AgentExecutor
from agents.executors.policy import SCREENSHOT_NAME, TOOLS_NAME, PolicyExecutor, over_http
from agents.executors.remote.executor import RemotePolicies
from agents.executors.site_tools import over_tools
from agents.executors.surface import Surface
from agents.learning.advice import Audience
from agents.models.errors import NotOffered
from agents.models.llamacpp.network import PREFIX as GGUF
from agents.models.local.network import PREFIX
from agents.rollouts.play import PLAN
from eventlog.events import EvaluationOpened, SweepPlanned
from eventlog.postgres import PostgresStore
from projections.runs import REMOTE, is_agent

from ..errors import OtherExecutor, WrongWay
from ..settings import Settings
from .agents import agent_executor
from .models import agent_model, has_weights, local_folder, local_host, weights_endpoint
from .remote import remote_policies

View = Literal["text", "screenshot", "tools"]
"""What a policy has of a site: the text of its pages, pictures of a window, or the tools of its MCP server."""


class Way(StrEnum):
    """Name of an executor on the command line."""

    PLAN = "plan"
    BROWSER = "browser"
    POLICY = "policy"
    DELEGATION = "delegation"
    DELEGATION_PLAN = "delegation-plan"
    DEMONSTRATION = "demonstration"
    REMOTE = "remote"
    # The executors of kits are choices of the same option; a name in this body would become a choice too.
    vars().update({name.upper().replace("-", "_"): name for kit in find_kits() for name in kit.executors})


MODELLED = frozenset({Way.POLICY, Way.DELEGATION, Way.DELEGATION_PLAN, Way.REMOTE})
"""Executors of a model."""

_ANYWHERE = frozenset({Way.POLICY, Way.DELEGATION})
_OF_KITS = frozenset(name for kit in find_kits() for name in kit.executors)


@contextmanager
def executor_of(
    way: Way,
    settings: Settings,
    *,
    model: str | None = None,
    inside: Inside | None = None,
    folder_of: FolderOf = no_checkpoints,
    agent: AgentSpec | None = None,
    journal_of: JournalOf | None = None,
    log: PostgresStore | None = None,
    sight: View = "text",
) -> Iterator[Executor]:
    """Create the executor. A policy uses the configured model, or another `model` of the same endpoint.

    With the sight `screenshot` it is shown pictures of a window in Chromium, for which its model has to take images;
    with `tools` it calls those of the site's MCP server and is shown no pages.
    An `agent` from outside takes the place of any other executor; a model in this process answers what it asks.
    The model `transformers:FOLDER` or `llamacpp:FOLDER` is a base model in this process, with checkpoints from
    `folder_of`; with FLYWHEEL_MODEL_BASE they are loaded into the endpoint. A delegation loop needs the journals of
    `journal_of`, another Flywheel the `log` that the runs are of. On an environment `inside` this process only a
    policy, a loop of policies and the executors of its kit can play.
    Raises WrongWay, BrowserMissing, BrowserNotStarted, NoModel, NoRemote, NotOffered, BadEndpoint, BaseUnfit,
    LibrariesMissing, NotConverted, BadSetting.
    """
    if agent is not None:
        with _outside_agent(agent, settings, inside, model, folder_of) as playing:
            yield playing
        return
    own = {} if inside is None else inside.executors
    fit = [each for each in Way if each in own or (each not in _OF_KITS and (inside is None or each in _ANYWHERE))]
    if way not in fit:
        raise WrongWay(actual=way.value, expected=" or ".join(fit))
    match way:
        case Way.PLAN:
            yield PLAN
        case Way.BROWSER:
            with Chromium(settings.browser) as chromium:
                yield BrowserExecutor(chromium)
        case Way.POLICY:
            with _policy_of(settings, model, inside, folder_of, sight) as policy:
                yield policy
        case Way.DELEGATION | Way.DELEGATION_PLAN:
            if journal_of is None:
                raise WrongWay(actual=way.value, expected=Way.POLICY.value)
            with _policy_of(settings, model, inside, folder_of) as policy:
                yield DelegationExecutor(policy, journal_of, walks=way is Way.DELEGATION_PLAN)
        case Way.DEMONSTRATION:
            yield Demonstrator(wording=settings.policy_wording)
        case Way.REMOTE:
            with remote_policies(settings, log, model) as remote:
                yield remote
        case _:
            yield own[way.value]


@contextmanager
def _outside_agent(
    agent: AgentSpec, settings: Settings, inside: Inside | None, model: str | None, folder_of: FolderOf
) -> Iterator[AgentExecutor]:
    if inside is not None and not isinstance(inside.environment, EpisodeEnvironment):
        raise WrongWay(actual="agent", expected=" or ".join((*inside.executors, Way.POLICY)))
    surfaces = None if inside is None else inside.opening
    with agent_executor(agent, settings, surfaces, model, folder_of) as playing:
        yield playing


@contextmanager
def _policy_of(
    settings: Settings, model: str | None, inside: Inside | None, folder_of: FolderOf, sight: View = "text"
) -> Iterator[PolicyExecutor | LocalPolicies | EndpointPolicies]:
    if sight == "screenshot":
        with _looking_policy(settings, model, inside) as looking:
            yield looking
        return
    if sight == "tools" and inside is not None:
        raise WrongWay(actual="policy with --sight tools", expected=f"{Way.POLICY.value} without it: no MCP server")
    opening = over_tools if sight == "tools" else over_http if inside is None else inside.opening
    inspect = None if inside is None else inside.inspect
    if local_folder(settings, model) is not None:
        with local_host(settings, model, folder_of) as (host, files_of):
            yield LocalPolicies(host, files_of, opening, settings.policy_wording, inspect=inspect)
        return
    if settings.model_base is not None:
        with weights_endpoint(settings, model, folder_of) as server:
            yield EndpointPolicies(server, opening, settings.policy_wording, inspect=inspect)
        return
    with agent_model(settings, model) as asked:
        yield PolicyExecutor(asked, opening=opening, wording=settings.policy_wording, inspect=inspect)


@contextmanager
def _looking_policy(settings: Settings, model: str | None, inside: Inside | None) -> Iterator[PolicyExecutor]:
    """A policy that looks at pictures of a window."""
    if inside is not None:
        raise WrongWay(actual="policy with --sight screenshot", expected=f"{Way.POLICY.value} without it: no window")
    if has_weights(settings, model):
        named = settings.model if model is None else model
        raise NotOffered(model=named or "the model", actual="images")
    with agent_model(settings, model) as asked, Chromium(settings.browser) as chromium:

        def open_window(instance: Instance, headers: Mapping[str, str]) -> AbstractContextManager[Surface]:
            return chromium.visit(instance.url, headers=headers)

        yield PolicyExecutor(asked, "screenshot", open_window, wording=settings.policy_wording)


_SHORTENED: Final = re.compile(r"~[0-9a-f]{12}$")


def inspector_of(executor: Executor) -> Inspectors:
    """Factory of the inspector with which recovery looks at the instance of a failed run."""
    return executor.inspectors() if isinstance(executor, Inspecting) else HttpInspector


def recorded_as(executor: Executor) -> tuple[str | None, str | None]:
    """The executor as recorded in events: its name (None for plans over HTTP) and its model, or what an agent is."""
    if isinstance(executor, AgentExecutor):
        return executor.agent.recorded_name, executor.agent.text
    name = None if executor.name == PLAN.name else executor.name
    if isinstance(executor, RemotePolicies):
        return name, executor.model_name
    if isinstance(executor, PolicyExecutor | LocalPolicies | EndpointPolicies | DelegationExecutor):
        return name, executor.model.name
    return name, None


def audience_of(executor: Executor) -> Audience | None:
    """What an executor is told of memory with a task; None if it applies memory to plans, or uses none."""
    return executor.audience if isinstance(executor, Advised) else None


def recorded_name(executor: Executor) -> str:
    """The executor's name in sweeps and evaluations, where plans over HTTP have none."""
    return recorded_as(executor)[0] or executor.name


def plays(executor: Executor, sweep: SweepPlanned) -> bool:
    """True if a sweep was planned for this executor and its model."""
    return recorded_as(executor) == (sweep.executor, sweep.model)


def options_of(planned: SweepPlanned | EvaluationOpened) -> str:
    """Command-line options that select the recorded executor and model."""
    model = planned.model if isinstance(planned, SweepPlanned) else None
    if is_agent(planned.executor):
        return agent_options(planned.model or "AGENT")
    return f"{_way_options(planned.executor or PLAN.name)}{f' --model {_without_api(model)}' if model else ''}"


def _way_options(executor: str) -> str:
    """Options that select a recorded executor."""
    if executor == SCREENSHOT_NAME:
        return f"--executor {Way.POLICY.value} --sight screenshot"
    if executor == TOOLS_NAME:
        return f"--executor {Way.POLICY.value} --sight tools"
    return f"--executor {executor}"


def worker_of(sweep: SweepPlanned) -> str:
    """The worker command that plays a sweep's queued jobs."""
    own = f" {options_of(sweep)}" if is_agent(sweep.executor) else ""
    executor = own or (f" {_way_options(sweep.executor)}" if sweep.executor else "")
    return f"{model_variable(sweep)}flywheel worker --site {sweep.environment}{executor}"


def model_variable(planned: SweepPlanned | EvaluationOpened) -> str:
    """The variable that names the recorded model, with a space after it; empty if there is no model.

    An agent's may be recorded shortened: then MODEL stands for it.
    """
    recorded = planned.model or ""
    model = model_in(recorded) if is_agent(planned.executor) else recorded
    variable = "FLYWHEEL_REMOTE_MODEL" if planned.executor == REMOTE else "FLYWHEEL_MODEL"
    named = "MODEL" if is_agent(planned.executor) and _SHORTENED.search(model) else _without_api(model)
    return f"{variable}={shlex.quote(named)} " if model else ""


def _without_api(model: str) -> str:
    """The model's name in the settings, which is its recorded name without the API prefix.

    A base model in this process is named by its folder; the log has only its digest, so FOLDER is a placeholder.
    """
    api, _, name = model.partition(":")
    return f"{api}:FOLDER" if f"{api}:" in {PREFIX, GGUF} else name or model


def refuse_other(executor: Executor, sweep: SweepPlanned, way_out: str) -> None:
    """Raise OtherExecutor if a sweep was planned for another executor or model."""
    if not plays(executor, sweep):
        raise OtherExecutor(
            what=f"The sweep {sweep.sweep}",
            expected=describe_executor(sweep.executor, sweep.model),
            actual=describe_executor(*recorded_as(executor)),
            way_out=way_out,
        )


def describe_executor(executor: str | None, model: str | None = None) -> str:
    """A recorded executor and model as text."""
    return f"the executor {executor or PLAN.name}{f' with {model}' if model else ''}"
