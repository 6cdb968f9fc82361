"""A suite as TOML that a person goes on writing. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from eventlog.events import Operation, SeedSpan, Suite, SuiteTask

from ..envs.contract import MICRO

_NO_PLAN = '# plan = [{ type = "navigate", intent = "open the first page", url = "/" }]'


def suite_toml(suite: Suite) -> str:
    """The text of a suite file; `read_suite` reads it back. A task without a plan shows the form of one."""
    seeds = suite.seeds
    head = [
        f"name = {_to_toml(suite.name)}",
        f"environment = {_to_toml(suite.environment)}",
        "",
        "[seeds]",
        f"training = {_to_toml(_span(seeds.training))}",
        f"sealed = {_to_toml(_span(seeds.sealed))}",
    ]
    tasks = (line for task in suite.tasks for line in ("", *_task(task)))
    rows = (line for row in suite.operations for line in ("", *_operation(row)))
    return "\n".join((*head, *tasks, *rows)) + "\n"


def _task(task: SuiteTask) -> Iterator[str]:
    yield "[[tasks]]"
    for name, given in (
        ("id", task.id),
        ("oracle_task", task.oracle_task),
        ("instruction", task.instruction),
        ("cluster", task.cluster),
    ):
        if given is not None:
            yield f"{name} = {_to_toml(given)}"
    yield f"max_steps = {task.max_steps}"
    if task.threshold_micro is not None:
        yield f"threshold = {task.threshold_micro / MICRO}"
    if task.plan is None:
        yield _NO_PLAN
    elif isinstance(task.plan, str):
        yield f"plan = {_to_toml(task.plan)}"
    else:
        yield "plan = ["
        yield from (f"  {_inline(step.model_dump(mode='json', exclude_none=True))}," for step in task.plan)
        yield "]"


def _operation(row: Operation) -> Iterator[str]:
    yield "[[operations]]"
    yield f"kind = {_to_toml(row.kind)}"
    yield f"labels = {_to_toml(row.labels)}"
    yield f"records = {_to_toml(row.records)}"


def _inline(facts: Mapping[str, Any]) -> str:
    return "{ " + ", ".join(f"{name} = {_to_toml(each)}" for name, each in facts.items()) + " }"


def _to_toml(value: object) -> str:
    """A value as TOML, which strings, integers, booleans and lists of JSON are but for one control character."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _span(span: SeedSpan) -> str:
    return f"{span.first}-{span.last}"
