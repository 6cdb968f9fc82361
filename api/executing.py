"""The ways of doing tasks that a command can ask for, made ready from the settings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum

from agents.envs.miniwob.tabs import Tabs
from agents.executors.browser import BrowserExecutor, Chromium
from agents.executors.executor import Executor
from agents.executors.miniwob import MiniWobScript, on_miniwob
from agents.executors.policy import PolicyExecutor, over_http
from agents.rollouts.play import PLAN

from .asking import agent_model
from .errors import WrongWay
from .settings import Settings


class Way(StrEnum):
    """A way of doing tasks."""

    PLAN = "plan"
    BROWSER = "browser"
    POLICY = "policy"
    MINIWOB_SCRIPT = "miniwob-script"


@contextmanager
def executor_of(
    way: Way, settings: Settings, *, model: str | None = None, tabs: Tabs | None = None
) -> Iterator[Executor]:
    """The executor of a way, ready to be used; a policy asks the model of the settings, or another of that endpoint.

    `tabs` are those that a site of MiniWoB++ lives in: there only a policy or the scripts can act. Raises WrongWay,
    BrowserMissing, BrowserNotStarted, NoModel, BadEndpoint.
    """
    fit = [each for each in Way if each is Way.POLICY or (each is Way.MINIWOB_SCRIPT) == (tabs is not None)]
    if way not in fit:
        raise WrongWay(actual=way.value, expected=" or ".join(fit))
    match way:
        case Way.PLAN:
            yield PLAN
        case Way.BROWSER:
            with Chromium(settings.browser) as chromium:
                yield BrowserExecutor(chromium)
        case Way.POLICY:
            with agent_model(settings, model) as asked:
                yield PolicyExecutor(asked, opening=over_http if tabs is None else on_miniwob(tabs))
        case Way.MINIWOB_SCRIPT if tabs is not None:
            yield MiniWobScript(tabs)
