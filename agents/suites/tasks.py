"""The tasks of a suite on an environment: which it grades, their templates, and the kinds of their steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from eventlog.events import Operation, Suite, SuiteTask, Template

from ..edited_files import Place
from ..envs.contract import TaskText
from ..rewards import OpsByStepKind
from .errors import NoPlan, NotGradedHere, OtherEnvironment
from .suite_file import Fault, locate_in_suite

_KINDS: Final[Mapping[str, str]] = {
    "navigate": "navigate",
    "click": "navigate",
    "fill_field": "fill",
    "select_option": "fill",
}


@dataclass(frozen=True, slots=True)
class Operations:
    """A site's operation table: the records expected of each kind, and the kinds of buttons by lower-case caption."""

    table: OpsByStepKind
    kinds: Mapping[str, str]

    def kind_of(self, step_type: str, label: str | None) -> str | None:
        """Kind of a step: navigate, fill, or the action of its button; None if it is unknown."""
        return _KINDS.get(step_type) or self.kinds.get((label or "").strip().casefold())


NO_OPERATIONS: Final = Operations({}, {})
"""The table of a site about which nothing is known."""


def operations_of(rows: Sequence[Operation]) -> Operations:
    """The operation table of a suite's rows."""
    return Operations(
        table={row.kind: frozenset(row.records) for row in rows},
        kinds={label.strip().casefold(): row.kind for row in rows for label in row.labels},
    )


def tasks_on(
    suite: Suite, environment: str, graded: Sequence[TaskText], file: Path | None = None
) -> tuple[SuiteTask, ...]:
    """The tasks of a suite that an environment grades, by id. An error names the line of its `file`, if it has one.

    A suite that serves a family of environments has tasks for others too. Raises OtherEnvironment if it is for another
    environment, NotGradedHere if the environment grades one of its own suite's tasks not.
    """
    known = {task.task_id for task in graded}
    if not suite.serves(environment):
        named = _name_in_file(suite, ("environment",), file)
        raise OtherEnvironment(suite=named, actual=suite.environment, expected=environment)
    if strange := _tasks_strange_to(suite, environment, known):
        named = _name_in_file(suite, _field_of_oracle(suite, strange[0]), file)
        tasks = [suite.tasks[place] for place in strange[:3]]
        names = ", ".join(f"task {task.id!r} with the oracle task {task.graded_as!r}" for task in tasks)
        expected = ", ".join(sorted(known)) or "none"
        raise NotGradedHere(suite=named, environment=environment, actual=names, expected=expected)
    return tuple(sorted((task for task in suite.tasks if task.graded_as in known), key=lambda task: task.id))


def misfits(suite: Suite, environment: str, graded: Sequence[TaskText]) -> Iterator[Fault]:
    """Reasons why a suite does not fit an environment that grades these tasks; none if it fits."""
    known = {task.task_id for task in graded}
    if not suite.serves(environment):
        yield ("environment",), f"it is {suite.environment!r}; the site answers as {environment!r}"
        return
    expected = ", ".join(sorted(known)) or "none"
    for place in _tasks_strange_to(suite, environment, known):
        oracle = suite.tasks[place].graded_as
        yield _field_of_oracle(suite, place), f"{oracle!r} is no task that {environment} grades; expected {expected}"


def _tasks_strange_to(suite: Suite, environment: str, known: Set[str]) -> list[int]:
    """The places of tasks that the environment should grade and does not."""
    strange = [place for place, task in enumerate(suite.tasks) if task.graded_as not in known]
    return strange if suite.environment == environment or len(strange) == len(suite.tasks) else []


def _field_of_oracle(suite: Suite, place: int) -> Place:
    """The field that says which oracle task a task has."""
    return "tasks", place, "id" if suite.tasks[place].oracle_task is None else "oracle_task"


def _name_in_file(suite: Suite, place: Place, file: Path | None) -> str:
    return suite.name if file is None else f"{suite.name} ({file}, {locate_in_suite(file, place)})"


def templates_of(suite: Suite, environment: str, graded: Sequence[TaskText]) -> tuple[Template, ...]:
    """Templates of a suite's tasks on an environment, by id. What the suite leaves out, the environment says.

    A task without a plan has its instruction as its plan text. Raises what tasks_on raises.
    """
    told = {task.task_id: task for task in graded}
    return tuple(_template(task, told[task.graded_as]) for task in tasks_on(suite, environment, graded))


def refuse_planless(templates: Iterable[Template]) -> None:
    """Raise NoPlan for tasks without steps, which an executor that follows a plan cannot play."""
    lacking = [template.template_id for template in templates if not template.plan_steps]
    if lacking:
        raise NoPlan(actual=", ".join(lacking))


def _template(task: SuiteTask, told: TaskText) -> Template:
    instruction = task.instruction or told.instruction
    return Template(
        template_id=task.id,
        cluster=task.cluster or told.cluster,
        oracle_task_id=task.graded_as,
        instruction=instruction,
        plan_text=(task.plan or instruction) if not isinstance(task.plan, tuple) else None,
        plan_steps=task.steps,
        max_steps=task.max_steps,
    )
