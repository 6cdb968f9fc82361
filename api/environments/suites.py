"""The suite that a command plays on a site: found or brought in, checked against the site, with its texts as steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from agents.envs.environment import Environment
from agents.rollouts.decompose import decompose
from agents.suites.errors import NoSuite
from agents.suites.in_log import VersionedSuite, find_suite, register_suite, suite_for
from agents.suites.suite_file import read_suite
from agents.suites.tasks import (
    NO_OPERATIONS,
    Operations,
    operations_of,
    refuse_planless,
    tasks_on,
    templates_of,
)
from eventlog.events import Suite, SuiteSeeds, SweepPlanned, Template
from eventlog.store import Position
from projections.sweeps import SWEEPS

from ..course import Course
from ..errors import Unknown
from ..house import House
from ..sweeps.models import agent_model

OPERATOR: Final = "operator"
_FILES: Final = frozenset({".toml", ".json"})


def is_suite_file(named: str) -> bool:
    """True if a suite is named by a file and not by its name in the log."""
    return Path(named).suffix in _FILES


def pin_suite(
    house: House, client: Environment, site: str, named: str | None = None, *, follows_plan: bool = False
) -> VersionedSuite:
    """The suite of a site in one version of the log: the named one, else that of its registration, else the newest.

    `named` is a name, a name with a version, or a file. A file and a bundled suite are brought in once they are checked
    against the site. For an executor that `follows_plan`, plans in words are turned into steps by the configured model.
    Raises NoSuite, OtherEnvironment, NotGradedHere, BadSuite, FileTooLarge, SuiteChanged, NoModel, ModelFailure,
    PlanRefused.
    """
    pinned = bring_in(house, find_checked_suite(house, client, site, named))
    if not follows_plan:
        return pinned
    return replace(pinned, suite=plans_as_steps(house, client, site, pinned.suite))


def find_checked_suite(house: House, client: Environment, site: str, named: str | None = None) -> VersionedSuite:
    """The suite that pin_suite gives, checked against the site. Appends nothing: it may have no version yet.

    Raises NoSuite, OtherEnvironment, NotGradedHere, BadSuite, FileTooLarge.
    """
    file = Path(named) if named is not None and is_suite_file(named) else None
    found = suite_for(house.store, house.views(), site, named) if file is None else VersionedSuite(read_suite(file))
    tasks_on(found.suite, site, client.health().tasks, file)
    return found


def bring_in(house: House, found: VersionedSuite) -> VersionedSuite:
    """The suite in a version of the log; one that has none gets the next. Raises SuiteChanged."""
    return found if found.version else register_suite(house.store, house.views(), found.suite, OPERATOR)


def suite_templates(
    house: House,
    client: Environment,
    site: str,
    suite: Suite,
    tasks: Sequence[str] | None = None,
    *,
    follows_plan: bool,
) -> tuple[Template, ...]:
    """Templates of a suite on a site, or those of these tasks, for an executor that can play each of them.

    A task is named by its id or by that of its grader. Raises Unknown for another name, NoPlan for tasks without a plan
    if the executor `follows_plan`, NoModel, ModelFailure, PlanRefused.
    """
    if follows_plan:
        suite = plans_as_steps(house, client, site, suite)
    found = templates_of(suite, site, client.health().tasks)
    known = {name: each for each in found for name in (each.oracle_task_id, each.template_id)}
    for name in tasks or ():
        if name not in known:
            raise Unknown(what="task of the suite", actual=name, way_out=f"It has {', '.join(sorted(known))}.")
    chosen = found if not tasks else tuple({known[name].template_id: known[name] for name in tasks}.values())
    if follows_plan:
        refuse_planless(chosen)
    return chosen


def plans_as_steps(house: House, client: Environment, site: str, suite: Suite) -> Suite:
    """The suite with its plans in words as steps, made by the configured model or read from its recorded answers.

    Raises NoModel, ModelFailure, PlanRefused.
    """
    texts = {task.id for task in suite.tasks if isinstance(task.plan, str)}
    wanted = [each for each in templates_of(suite, site, client.health().tasks) if each.template_id in texts]
    if not wanted:
        return suite
    with agent_model(house.settings) as model:
        steps = {each.template_id: decompose(each, model, house.store, house.blobs).plan_steps for each in wanted}
    tasks = (task.model_copy(update={"plan": steps[task.id]}) if task.id in steps else task for task in suite.tasks)
    return suite.model_copy(update={"tasks": tuple(tasks)})


def suite_learned_on(house: House, site: str, actor: str) -> VersionedSuite | None:
    """The suite version of the last sweep that an actor learned from on a site; None if it names none."""
    views = house.views()
    state = views.get(SWEEPS, site)
    last = None if state is None else state.last_round(actor)
    if last is None:
        return None
    for recorded in house.store.read(stream=f"sweep/{last}", upto=views.upto):
        if isinstance(recorded.event, SweepPlanned) and recorded.event.suite is not None:
            return find_suite(house.store, views, recorded.event.suite)
    return None


def suite_of_log(house: House, site: str, named: str | None = None) -> VersionedSuite | None:
    """The named version of a suite, else the one that the log, or a bundled file, has for a site; None without one."""
    try:
        return suite_for(house.store, house.views(), site, named)
    except NoSuite:
        return None


def operations_on(house: House, site: str, named: str | None = None) -> Operations:
    """The operation table of a suite's version (None: of the site's suite); an empty one without a suite."""
    found = suite_of_log(house, site, named)
    return NO_OPERATIONS if found is None else operations_of(found.suite.operations)


def pinned_operations(house: House, site: str, version: str | None, opened: Position) -> Operations:
    """The operation table that an evaluation is pinned to: of its suite's version, else of its site's suite then.

    Raises NoSuite for a version that the log does not hold.
    """
    if version is not None:
        return operations_of(find_suite(house.store, house.views(), version).suite.operations)
    try:
        return operations_of(suite_for(house.store, house.views(opened), site).suite.operations)
    except NoSuite:
        return NO_OPERATIONS


def seeds_on(house: House, site: str, named: str | None = None) -> SuiteSeeds:
    """The seed ranges of a suite's version (None: of the site's suite); the usual ones without a suite."""
    found = suite_of_log(house, site, named)
    return SuiteSeeds() if found is None else found.suite.seeds


def course_within(course: Course, suite: Suite) -> Course:
    """The course with the seeds of a suite, where the suite names other ranges than the usual ones.

    The gate's sealed seeds are the first of the sealed range. Its visible ones are the last of the training range,
    which no sweep plays.
    """
    return course_among(course, suite.seeds)


def course_among(course: Course, seeds: SuiteSeeds) -> Course:
    """The course within the seed ranges of a suite, where these are not the usual ones."""
    if seeds == SuiteSeeds():
        return course
    training, sealed = seeds.training.seeds, seeds.sealed.seeds
    visible = training[max(1, len(training) - len(course.visible_seeds)) :]
    return replace(
        course,
        first_seed=training.start,
        training_seeds=visible.start if visible else training.stop,
        visible_seeds=tuple(visible),
        sealed_seeds=tuple(sealed[: len(course.sealed_seeds)]),
    )
