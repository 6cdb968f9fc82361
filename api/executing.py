"""The ways of doing tasks that a command can ask for, made ready from the settings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum

from agents.executors.browser import BrowserExecutor, Chromium
from agents.executors.executor import Executor
from agents.executors.policy import PolicyExecutor
from agents.rollouts.play import PLAN

from .asking import agent_model
from .settings import Settings


class Way(StrEnum):
    """A way of doing tasks."""

    PLAN = "plan"
    BROWSER = "browser"
    POLICY = "policy"


@contextmanager
def executor_of(way: Way, settings: Settings, *, model: str | None = None) -> Iterator[Executor]:
    """The executor of a way, ready to be used; a policy asks the model of the settings, or another of that endpoint.

    Raises BrowserMissing, BrowserNotStarted, NoModel, BadEndpoint.
    """
    match way:
        case Way.PLAN:
            yield PLAN
        case Way.BROWSER:
            with Chromium(settings.browser) as chromium:
                yield BrowserExecutor(chromium)
        case Way.POLICY:
            with agent_model(settings, model) as asked:
                yield PolicyExecutor(asked)
