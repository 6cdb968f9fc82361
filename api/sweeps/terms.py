"""The terms of predictions as a worker keeps them: limits, headers of pages, and the checkpoint to go on from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace

from agents.envs.lent import LentEnvironment
from agents.executors.terms import RunTerms, under_terms
from agents.rollouts.dispatching.checkpoints import resume_answers
from agents.rollouts.dispatching.lent_instances import find_lent, return_lent
from agents.rollouts.dispatching.profiles import TableKeeper
from agents.rollouts.dispatching.queue import JobTicket
from agents.rollouts.dispatching.state_keys import StateKey
from agents.rollouts.play import Means
from eventlog.events import RunTermsSet
from projections.runs import POLICIES

from ..errors import HeaderUnset, InstanceNotLent
from ..house import House
from ..queries.predictions import PREFIX, terms_of
from ..settings import read_secret


def time_limit_of(house: House, ticket: JobTicket, longest_s: float) -> float:
    """Seconds that a queued run may take: at most those of the worker, and at most those that it was asked for with."""
    terms = terms_of(house.store, ticket.spec) if ticket.sweep.startswith(PREFIX) else None
    return longest_s if terms is None or terms.max_seconds is None else min(longest_s, terms.max_seconds)


@contextmanager
def means_of_run(house: House, means: Means, ticket: JobTicket, state: StateKey) -> Iterator[Means]:
    """The means to play a queued run: those of its sweep, under its own terms if somebody asked for it over REST.

    Raises HeaderUnset, InstanceNotLent.
    """
    if not ticket.sweep.startswith(PREFIX):
        yield means
        return
    found = terms_of(house.store, ticket.spec)
    headers = {} if found is None else {name: _header_value(value, name) for name, value in found.page_headers}
    most = None if found is None else found.max_micro_dollars
    is_drawn = means.executor.name in POLICIES
    keeper = TableKeeper(house.engine)
    lent = None if found is None or found.instance is None else _lent_environment(keeper, means, found)
    keeping = resume_answers(keeper, state) if is_drawn else nullcontext()
    with keeping as log:
        terms = RunTerms(means.book, means.stopwatch, most, headers, log)
        grades = found is None or not found.is_sealed
        playing = under_terms(means.executor, terms)
        yield replace(means, executor=playing, environment=lent or means.environment, grades=grades)
    if found is not None and found.instance is not None:
        return_lent(keeper, ticket.spec, found.instance)


def forget_run(house: House, ticket: JobTicket) -> None:
    """Forget what was kept for a run that was asked for and has ended: the instance that was lent, and its answers."""
    if not ticket.sweep.startswith(PREFIX):
        return
    keeper = TableKeeper(house.engine)
    terms = terms_of(house.store, ticket.spec)
    if terms is not None and terms.instance is not None:
        return_lent(keeper, ticket.spec, terms.instance)
    if ticket.state_key is None:
        answers = ticket.state.resume
        keeper.discard(answers, keeper.hand_out(answers)[0])


def _lent_environment(keeper: TableKeeper, means: Means, terms: RunTermsSet) -> LentEnvironment:
    """The site with the instance of a run that plays on no other one. Raises InstanceNotLent."""
    found = None if terms.instance is None else find_lent(keeper, terms.run, terms.instance)
    if found is None:
        raise InstanceNotLent(run=terms.run)
    return LentEnvironment(means.environment, found.instance, found.repeat)


def _header_value(reference: str, header: str) -> str:
    variable = reference.removeprefix("$")
    found = read_secret(variable)
    if found is None:
        raise HeaderUnset(variable=variable, header=header)
    return found.get_secret_value()
