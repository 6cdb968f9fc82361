"""Set up a sweep started by a user: prepare its site and find its earlier plan or make a new one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import typer

from agents.envs.environment import Environment
from agents.executors.executor import Executor, refuse_without_logprobs
from agents.executors.outside.agent_spec import AgentSpec
from agents.rollouts.dispatching.queue import RolloutQueue
from agents.rollouts.sweep import Generator
from eventlog.events import SweepPlanned, Trials
from projections.runs import ADVISED, PLANLESS
from projections.sweeps import SweepsState

from ..controllers.delegation import journals_of
from ..environments.admission import first_admission, see_admission
from ..environments.connect import Placed, Where, placed_at
from ..history.disown import refuse_forged
from ..house import House
from ..locks import only_controller
from ..queries.benchmarks import benchmark_seeds
from ..queries.sweeps import plans_of, sweeps_on
from ..sweeps.executors import View, Way, executor_of, options_of, refuse_other
from ..sweeps.first_call import ask_first
from ..sweeps.jobs import refuse_session_not_kept
from ..sweeps.plan import first_facts, next_sweep_name, plan
from ..sweeps.step_checks import refuse_unchecked
from ..training.weights import folders_of
from .output import ERR, TerminalReporter, open_project
from .sweep_options import Chosen, dialect_from, sweep_templates

OPERATOR = "operator"


@dataclass(frozen=True, slots=True)
class SweepSetup:
    """An admitted site, locked for this process, with its executor. `planned` are the plans of the requested name."""

    house: House
    site: str
    client: Environment
    executor: Executor
    planned: tuple[SweepPlanned, ...]

    def next_name(self) -> str:
        """Default name of the next sweep."""
        return next_sweep_name(self.house.store, self.house.views(), self.site)

    def before(self) -> SweepsState:
        """Sweeps planned on the site before."""
        return sweeps_on(self.house.views(), self.site)

    def reserved_seeds(self) -> frozenset[int]:
        """Seeds held by benchmarks of the site."""
        return benchmark_seeds(self.house.views(), self.site)


@contextmanager
def set_up_sweep(
    site: str,
    where: Where,
    dialect: Path | None,
    way: Way,
    model: str | None,
    *,
    name: str | None,
    wants_logprobs: bool,
    verify_steps: bool,
    session: str | None = None,
    agent: AgentSpec | None = None,
    sight: View = "text",
) -> Iterator[SweepSetup]:
    """Prepare the site, executor and first facts of the sweep `name`; release them at the end of the block.

    Raises ForgedEvents, SessionNotKept, NoLogprobs, NoJudge, OtherExecutor, and what placed_at, executor_of,
    only_controller and see_admission raise.
    """
    with (
        open_project() as house,
        placed_at(house, site, where, dialect_from(dialect)) as placed,
        _executor_of(house, way, model, placed, agent, sight) as executor,
        only_controller(house, site) as house,
    ):
        refuse_forged(house.views())
        refuse_session_not_kept(session, executor)
        if wants_logprobs:
            refuse_without_logprobs(executor)
        refuse_unchecked(house.settings, placed.environment, verify_steps=verify_steps)
        first_facts(house)
        see_admission(house, placed.environment, site, first_admission(placed, TerminalReporter()))
        yield SweepSetup(house, site, placed.environment, executor, _known_as(house, site, name, executor))


def _executor_of(
    house: House, way: Way, model: str | None, placed: Placed, agent: AgentSpec | None, sight: View
) -> AbstractContextManager[Executor]:
    return executor_of(
        way,
        house.settings,
        model=model,
        inside=placed.inside,
        folder_of=folders_of(house),
        journal_of=journals_of(house),
        log=house.store,
        agent=agent,
        sight=sight,
    )


def call_first(ready: SweepSetup, *, needs_logprobs: bool) -> SweepSetup:
    """Ask the policy's model one question, before a sweep is planned that it could not play. Raises ModelFailure."""
    return replace(ready, executor=ask_first(ready.executor, lambda _: not needs_logprobs and go_without_logprobs()))


def call_model_first(executor: Executor) -> Executor:
    """Ask a policy's model one question before runs depend on it; on a terminal, whether to play without logprobs.

    Returns the executor to play with. Raises ModelFailure.
    """
    return ask_first(executor, lambda _: go_without_logprobs())


def go_without_logprobs() -> bool:
    """Ask on a terminal whether to play without logprobs; elsewhere False."""
    question = "The endpoint returns no logprobs, so its runs cannot be trained on with GRPO. Play without them?"
    return ERR.is_terminal and typer.confirm(question, err=True)


def _known_as(house: House, site: str, name: str | None, executor: Executor) -> tuple[SweepPlanned, ...]:
    """Plans of the sweep with this name, including siblings added later; may be empty. Raises OtherExecutor."""
    plans = () if name is None else plans_of(house.store, house.views(), name)
    stands = tuple(event for event in plans if event.environment == site)
    if stands:
        refuse_other(executor, stands[0], f"Use {options_of(stands[0])}.")
        TerminalReporter().say(f"{name} already exists: playing its remaining runs as planned before")
    return stands


def tasks_to_play(ready: SweepSetup, templates: Path | None, suite: str | None, names: Sequence[str] | None) -> Chosen:
    """The templates that the options choose; see sweep_templates."""
    return sweep_templates(ready.house, ready.client, ready.site, ready.executor, templates, suite, names)


def plan_now(
    ready: SweepSetup,
    generator: Generator,
    rng_seed: int,
    *,
    learn: bool,
    queued: bool,
    suite: str | None,
    tells: bool = False,
) -> tuple[SweepPlanned, ...]:
    """Plan the sweep of a generator, with trials if it learns; put it in the queue if `queued`."""
    house = ready.house
    views = house.views()
    event = plan(
        house,
        views,
        ready.site,
        generator,
        rng_seed=rng_seed,
        trials=Trials.current() if learn and ready.executor.name not in PLANLESS - ADVISED else None,
        learns=learn,
        queue=RolloutQueue(house.engine, ready.site) if queued else None,
        executor=ready.executor,
        actor=OPERATOR,
        suite=suite,
        tells=tells,
    )
    return (event,)
