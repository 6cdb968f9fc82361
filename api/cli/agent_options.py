"""The options that say which agent plays, and how it is told what memory holds."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ..settings import read_settings
from .output import TerminalReporter

if TYPE_CHECKING:
    from agents.executors.outside.agent_spec import AgentSpec

    from ..sweeps.executors import View, Way

UNFENCED: Final = (
    "there is no working bubblewrap here, so the agent can read Flywheel's home, the keys of all projects and your "
    "other processes; install it to hide them (apt-get install bubblewrap)"
)

AgentOf = Annotated[
    str | None,
    typer.Option(
        "--agent",
        metavar="python:MODULE:FUNCTION|command:PROGRAM|policy",
        help="Play with an agent of your own, in place of an executor: a function of Python, or any program; "
        "policy is the same as --executor policy.",
    ),
]


class Telling(StrEnum):
    """How an agent of one's own is told what memory holds."""

    TASK = "task"
    PROXY = "proxy"


AdviceOf = Annotated[
    Telling,
    typer.Option(
        "--advice",
        help="With --agent: tell it what memory holds in its task (task), or put that into each request to its "
        "model, for an agent that reads no advice (proxy).",
    ),
]


class SightName(StrEnum):
    """How a policy sees a page."""

    TEXT = "text"
    SCREENSHOT = "screenshot"
    TOOLS = "tools"


SightOf = Annotated[
    SightName,
    typer.Option(
        "--sight",
        help="With --executor policy: what its model sees of a page, its text, or pictures of a window in Chromium; "
        "or tools: no pages, but the tools of the site's MCP server as actions.",
    ),
]


def sight_of(view: SightName, executor: Way) -> View:
    """How a policy sees a site. Raises BadParameter for anything but text without a policy."""
    from ..sweeps.executors import Way

    if view is not SightName.TEXT and executor is not Way.POLICY:
        raise typer.BadParameter(f"--sight {view.value} is for a policy; add --executor policy or leave it out")
    return view.value


def player_of(
    named: str | None, executor: Way, timeout: float | None, model: str | None = None, advice: Telling = Telling.TASK
) -> tuple[Way, AgentSpec | None]:
    """What plays: an executor, or the agent of `--agent`, which lies in the current folder.

    Raises BadAgent, BadSetting, and BadParameter for options that exclude it, or a time limit of runs before its own:
    runs that exceed the limit are missing, and an agent that hangs must be graded.
    """
    from agents.executors.outside.executor import LATEST_S

    from ..sweeps.executors import Way

    if named in {None, Way.POLICY.value} and advice is Telling.PROXY:
        raise typer.BadParameter("--advice proxy is for an agent of your own; add --agent or leave it out")
    if named is None:
        return executor, None
    if named == Way.POLICY.value and executor in {Way.PLAN, Way.POLICY}:
        return Way.POLICY, None
    if executor is not Way.PLAN or model is not None:
        raise typer.BadParameter("--agent plays in place of an executor: leave out --executor and --model")
    seconds = read_settings().agent_seconds
    if timeout is not None and timeout < seconds + LATEST_S:
        raise typer.BadParameter(
            f"--timeout {timeout:g} is too short for the agent's {seconds:g} seconds and {LATEST_S:g} to end it; "
            "raise it, or lower FLYWHEEL_AGENT_SECONDS"
        )
    return executor, named_agent(named, advice)


def named_agent(named: str, advice: Telling) -> AgentSpec:
    """The agent of `--agent`, which lies in the current folder. Says if it has no fence. Raises BadAgent."""
    from agents.executors.outside.agent_spec import read_agent
    from agents.executors.outside.fence import fence_words

    found = read_agent(named, Path.cwd(), by_proxy=advice is Telling.PROXY)
    if not fence_words():
        TerminalReporter().say(UNFENCED)
    return found
