"""Check the steps of runs: against the site's record, or with the judge's model if the site has none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from agents.envs.clients.mutations import read_mutations
from agents.envs.contract import Instance
from agents.envs.environment import Environment
from agents.executors.executor import Watch, no_verification
from agents.executors.observers import watch_factory
from agents.learning.step_checks import ModelVerifier
from agents.suites.tasks import NO_OPERATIONS, Operations

from ..settings import Settings
from .models import judge_from

Watching = Callable[[Instance], Watch]
"""Factory of the watch of one instance."""


Checking = Callable[[str | None], tuple[Watching, Operations]]
"""Factory of watches, and the operation table, of a suite's version; None: of the site's suite."""


def nobody(_instance: Instance) -> Watch:
    """A watch that checks nothing."""
    return no_verification


@contextmanager
def watching_of(
    settings: Settings, client: Environment, operations: Operations, *, verify_steps: bool
) -> Iterator[Watching]:
    """Factory of watches: no checks, checks against the site's record, or checks with the judge's model.

    No model is opened if the site has a record. Raises NoJudge, BadEndpoint.
    """
    if not verify_steps:
        yield nobody
    elif client.has_record:
        yield watch_factory(operations, look=lambda instance, since: read_mutations(client, instance, since))
    else:
        with judge_from(settings) as model:
            yield watch_factory(operations, by_model=ModelVerifier(model))


def check_nothing(_suite: str | None) -> tuple[Watching, Operations]:
    """Watches that check nothing, for any suite."""
    return nobody, NO_OPERATIONS


def refuse_unchecked(settings: Settings, client: Environment, *, verify_steps: bool) -> None:
    """Raise NoJudge or BadEndpoint if steps must be checked and there is neither a record nor a judge."""
    with watching_of(settings, client, NO_OPERATIONS, verify_steps=verify_steps):
        return
