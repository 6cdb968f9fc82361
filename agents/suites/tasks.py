"""The tasks of a suite on an environment: which it grades, their templates, and the kinds of their steps. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from eventlog.events import Operation, Suite, SuiteTask, Template

from ..envs.contract import TaskText
from ..rewards import OpsByStepKind
from .errors import NoPlan, NotGradedHere, OtherEnvironment

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


def tasks_on(suite: Suite, environment: str, graded: Sequence[TaskText]) -> tuple[SuiteTask, ...]:
    """The tasks of a suite that an environment grades, by id.

    A suite that serves a family of environments has tasks for others too. Raises OtherEnvironment if it is for another
    environment, NotGradedHere if the environment grades one of its own suite's tasks not.
    """
    if not suite.serves(environment):
        raise OtherEnvironment(suite=suite.name, actual=suite.environment, expected=environment)
    known = {task.task_id for task in graded}
    strange = [task for task in suite.tasks if task.graded_as not in known]
    if strange and (suite.environment == environment or len(strange) == len(suite.tasks)):
        names = ", ".join(f"task {task.id!r} with the oracle task {task.graded_as!r}" for task in strange[:3])
        expected = ", ".join(sorted(known)) or "none"
        raise NotGradedHere(suite=suite.name, environment=environment, actual=names, expected=expected)
    return tuple(sorted((task for task in suite.tasks if task.graded_as in known), key=lambda task: task.id))


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
