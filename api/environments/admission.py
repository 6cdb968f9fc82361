"""Probe an environment, record the result and admit it; also automatically at its first use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from agents.envs.admission import STREAM, admit, check_admitted, record, why_not
from agents.envs.environment import Environment
from agents.envs.errors import NotAdmitted, OtherSite
from agents.envs.probing.local import probe_target
from agents.envs.probing.probes import PROBES, SEEDS, report, tasks_digest
from agents.envs.probing.target import Target
from agents.executors.plan import execute
from eventlog.store import Position
from projections.environments import ENVIRONMENTS, EnvironmentState

from ..course import CONTROLLER
from ..house import House
from ..queries.facts import require
from ..reporter import Reporter
from .connect import Placed
from .suites import find_checked_suite, suite_of_log

Admit = Callable[[House], None]
"""Admits a site with this house, which appends in the session that holds the site's lock."""

FIRST_USE = "probed at first use, and nothing failed"


@dataclass(frozen=True, slots=True)
class Probed:
    """Result of probing: the environment's new state, and the position of the admission if there is one."""

    state: EnvironmentState
    admitted: Position | None


def probe_and_record(house: House, target: Target, reporter: Reporter, actor: str, *, reason: str | None) -> Probed:
    """Run every probe and record the report. Admit the site if no probe failed and a `reason` is given.

    Raises EnvironmentDown if the site stops answering; then nothing is recorded.
    """
    with reporter.phase(f"probing {target.name}", len(PROBES)) as advance:
        found = report(target, advance=advance)
    record(house.store, found, actor)
    state = require(house.views().get(ENVIRONMENTS, target.name))
    if state.failed_probes or reason is None:
        return Probed(state, None)
    return Probed(state, admit(house.store, state, actor, reason))


def target_at(placed: Placed, *, seeds: tuple[int, ...] = SEEDS, rng_seed: int = 0) -> Target:
    """Target for probing a connected site. Raises EnvironmentFailure."""
    if placed.inside is not None:
        return placed.inside.target(seeds, rng_seed)
    return probe_target(placed.site, placed.environment, seeds=seeds, rng_seed=rng_seed, dialect=placed.dialect)


def with_plans(house: House, target: Target, named: str | None = None) -> Target:
    """The target with the plans of a suite: the named one (a name, a version or a file), else that of its site.

    Raises NoSuite, OtherEnvironment, NotGradedHere, BadSuite, FileTooLarge for a named suite.
    """
    if named is not None:
        found = find_checked_suite(house, target.environment, target.name, named)
    elif (of_log := suite_of_log(house, target.name)) is None:
        return target
    else:
        found = of_log
    tasks = [task for task in found.suite.tasks if task.steps]
    return replace(
        target, plays={task.graded_as: partial(execute, task.steps, max_steps=task.max_steps) for task in tasks}
    )


def first_admission(placed: Placed, reporter: Reporter) -> Admit | None:
    """Function that admits a bundled site at its first use; None for a site that runs elsewhere."""
    return partial(admit_at_first_use, placed=placed, reporter=reporter) if placed.is_ours else None


def see_admission(house: House, environment: Environment, site: str, admit: Admit | None) -> None:
    """Check that the site is admitted; otherwise call `admit` and check again.

    Raises OtherSite if another site answers, NotAdmitted if it is still not admitted.
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
        admit(house)
        check_admitted(house.views(), site, tasks)


def admit_at_first_use(house: House, placed: Placed, reporter: Reporter) -> None:
    """Probe a site started by this process and admit it. If a report exists already, only admit the site.

    A site with a failed probe is not admitted; the next check reports why. Raises NotAdmitted if another actor probed
    these tasks last and did not admit them.
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
    """Actor who recorded the newest report of an environment."""
    since = Position(state.probed_since)
    (report,) = house.store.read(after=Position(since - 1), upto=since, stream=STREAM.format(state.environment))
    return report.actor
