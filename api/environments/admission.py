"""Probing an environment and recording what was found; and the controller's own way to do both at first use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from agents.envs.admission import STREAM, admit, check_admitted, record, why_not
from agents.envs.environment import Environment
from agents.envs.errors import NotAdmitted, OtherSite
from agents.envs.foreign.dialect import Dialect
from agents.envs.miniwob.environment import MiniWob
from agents.envs.probing.local import probe_target
from agents.envs.probing.probes import PROBES, SEEDS, report, tasks_digest
from agents.envs.probing.target import Target
from eventlog.store import Position
from projections.environments import ENVIRONMENTS, EnvironmentState

from ..course import CONTROLLER
from ..house import House
from ..queries.facts import require
from ..sweeps.jobs import Reporter
from . import miniwob
from .connect import Placed

FIRST_USE = "probed at first use, and nothing failed"


@dataclass(frozen=True, slots=True)
class Probed:
    """What was recorded of one probing: the environment's state after it, and the position of the admission."""

    state: EnvironmentState
    admitted: Position | None


def probe_and_record(house: House, target: Target, reporter: Reporter, actor: str, *, reason: str | None) -> Probed:
    """Ask every probe and record the report; where nothing failed and a `reason` is given, admit.

    Raises EnvironmentDown where the site stops answering: then nothing is recorded.
    """
    with reporter.phase(f"probing {target.name}", len(PROBES)) as advance:
        found = report(target, advance=advance)
    record(house.store, found, actor)
    state = require(house.views().get(ENVIRONMENTS, target.name))
    if state.failed_probes or reason is None:
        return Probed(state, None)
    return Probed(state, admit(house.store, state, actor, reason))


def target_at(
    placed: Placed, *, seeds: tuple[int, ...] = SEEDS, rng_seed: int = 0, dialect: Dialect | None = None
) -> Target:
    """What is probed of a site that was placed. Raises EnvironmentFailure."""
    if isinstance(placed.environment, MiniWob) and placed.tabs is not None:
        return miniwob.miniwob_target(placed.environment, placed.tabs, seeds=seeds, rng_seed=rng_seed)
    return probe_target(placed.site, placed.environment, seeds=seeds, rng_seed=rng_seed, dialect=dialect)


def first_admission(house: House, placed: Placed, reporter: Reporter) -> Callable[[], None] | None:
    """How a site is admitted at its first use. One that runs elsewhere is admitted by whoever knows it: None."""
    if not placed.is_ours:
        return None
    return lambda: admit_at_first_use(house, placed, reporter)


def see_admission(house: House, environment: Environment, site: str, admit: Callable[[], None] | None) -> None:
    """Only an admitted site is swept, judged on or frozen into a benchmark.

    Raises OtherSite where another site answers, NotAdmitted after `admit` was tried.
    """
    health = environment.health()
    if health.site != site:
        raise OtherSite(url=environment.admin_url, actual=health.site, expected=site)
    tasks = health.tasks
    try:
        check_admitted(house.views(), site, tasks)
    except NotAdmitted:
        if admit is None:
            raise
        admit()
        check_admitted(house.views(), site, tasks)


def admit_at_first_use(house: House, placed: Placed, reporter: Reporter) -> None:
    """Probe a site that we started and admit it; where that was cut short after the report, only admit it.

    A site that fails is not admitted: whoever asks for it next says why. Raises NotAdmitted where somebody else probed
    these tasks last and did not admit them: that stands until they do.
    """
    target = target_at(placed)
    before = house.views().get(ENVIRONMENTS, target.name)
    if before is not None and before.tasks_digest == tasks_digest(target.tasks):
        if _prober(house, before) != CONTROLLER:
            raise NotAdmitted(environment=target.name, actual=why_not(before))
        if not before.failed_probes:
            admit(house.store, before, CONTROLLER, FIRST_USE)
            return
    for result in probe_and_record(house, target, reporter, CONTROLLER, reason=FIRST_USE).state.probes:
        if result.outcome == "failed":
            reporter.say(f"{result.name} failed: {result.detail}")


def _prober(house: House, state: EnvironmentState) -> str:
    """Who recorded the newest report of an environment."""
    since = Position(state.probed_since)
    (report,) = house.store.read(after=Position(since - 1), upto=since, stream=STREAM.format(state.environment))
    return report.actor
