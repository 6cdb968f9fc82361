"""The tasks of the bundled suites: their plans, and templates with an instruction of one's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from agents.envs.contract import TaskText
from agents.suites.bundled import bundled_suites
from agents.suites.tasks import Operations, operations_of, templates_of
from eventlog.events import Step, Template

FAMILY: Final = "miniwob"
PLANS: Final[Mapping[str, tuple[Step, ...]]] = {
    task.id: task.steps for suite in bundled_suites().values() if suite.name != FAMILY for task in suite.tasks
}
"""Task id -> plan, of the sites that are served over HTTP."""

PAGE_PLANS: Final[Mapping[str, tuple[Step, ...]]] = {
    task.id.removeprefix(f"{FAMILY}."): task.steps
    for task in bundled_suites()[FAMILY].tasks
    if [step.type for step in task.steps] != ["navigate"]
}
"""Name of a MiniWoB++ page -> plan, where it is more than opening the page."""

OPERATIONS: Final[Mapping[str, Operations]] = {
    suite.environment: operations_of(suite.operations) for suite in bundled_suites().values()
}
"""Environment -> operation table."""


def template(task_id: str, instruction: str) -> Template:
    """The template of one task of a bundled suite."""
    return templates({task_id: instruction})[0]


def templates(instructions: Mapping[str, str]) -> tuple[Template, ...]:
    """One template for each of these tasks of a bundled suite, by id."""
    asked = tuple(TaskText(task_id=task, instruction=text) for task, text in instructions.items())
    found: list[Template] = []
    for told in asked:
        suite = next(each for each in bundled_suites().values() if told.task_id in {task.id for task in each.tasks})
        alone = suite.model_copy(update={"tasks": tuple(task for task in suite.tasks if task.id == told.task_id)})
        found += templates_of(alone, suite.environment, (told,))
    return tuple(sorted(found, key=lambda each: each.template_id))
