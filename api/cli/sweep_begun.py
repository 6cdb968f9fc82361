"""A sweep that a person asks for by name: the one that was planned so, else one that is planned now."""

from __future__ import annotations

from collections.abc import Iterable

from agents.executors.executor import Executor
from agents.rollouts.queue import RolloutQueue
from agents.rollouts.sweep import Generator
from eventlog.events import SweepPlanned, Trials

from ..executing import options_of, refuse_other
from ..house import House
from ..sweeping import plan
from .output import TerminalReporter

OPERATOR = "operator"


def known_as(before: Iterable[SweepPlanned], name: str | None, executor: Executor) -> tuple[SweepPlanned, ...]:
    """What was planned under a name, with what was added to it; nothing where none was. Raises OtherExecutor."""
    stands = tuple(event for event in before if event.sweep == name)
    if stands:
        refuse_other(executor, stands[0], f"Say {options_of(stands[0])}.")
        TerminalReporter().say(f"{name} was planned before: what is left of it is played, as it was planned")
    return stands


def planned_now(
    house: House, site: str, generator: Generator, rng_seed: int, executor: Executor, *, learn: bool, queued: bool
) -> tuple[SweepPlanned, ...]:
    """The sweep of a generator, planned; with trials where it learns, and in the queue where it is `queued`."""
    views = house.views()
    event = plan(
        house,
        views,
        site,
        generator,
        rng_seed=rng_seed,
        trials=Trials() if learn else None,
        learns=learn,
        queue=RolloutQueue(house.engine, site) if queued else None,
        executor=executor,
        actor=OPERATOR,
    )
    return (event,)
