"""Plans shared by both arms of an evaluation: made once when it is opened, and read from its event afterwards.

They are stored as suites, the request format of micro-plan runners.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from eventlog.blobs import Blob, BlobStore
from eventlog.chain import canonical
from eventlog.disowned import read_in_force
from eventlog.events import BenchmarkTemplate, Suite, SweepPlanned, TaskPlan, Template
from eventlog.store import EventStore, Position

from ..models.model import Model
from ..plans import Plan
from ..suites.micro_suite import build_micro_suite, plan_of
from .decompose import decompose
from .errors import UnknownTemplate
from .facts import JSON_TYPE


def plan_suite(
    templates: Sequence[BenchmarkTemplate],
    environment: str,
    store: EventStore,
    blobs: BlobStore,
    model: Model | None,
    suite: Suite | None = None,
) -> tuple[TaskPlan, ...]:
    """Plan for each template: that of the suite, else one that the model makes in steps; stored as blobs.

    The model breaks down the suite's text, or the instruction where the suite has no plan. Raises UnknownTemplate if
    there is neither steps nor a model, and the errors of `decompose`.
    """
    plans = [_plan(template, store, blobs, model, suite) for template in templates]
    suites = [Blob(JSON_TYPE, canonical(build_micro_suite(plan, environment))) for plan in plans]
    blobs.put(suites)
    named = zip(templates, suites, strict=True)
    return tuple(TaskPlan(template=template.template_id, plan=suite.digest) for template, suite in named)


def _plan(
    template: BenchmarkTemplate, store: EventStore, blobs: BlobStore, model: Model | None, suite: Suite | None
) -> Plan:
    tasks = () if suite is None else suite.tasks
    task = next((each for each in tasks if each.graded_as == template.oracle_task_id), None)
    if task is not None and task.steps:
        return task.steps
    if model is None:
        known = ", ".join(sorted(each.graded_as for each in tasks if each.steps)) or "none"
        expected = f"{known}, or a model in FLYWHEEL_MODEL that plans from its instruction"
        raise UnknownTemplate(actual=template.oracle_task_id, expected=expected)
    bare = without_plan(template)
    text = task.plan if task is not None and isinstance(task.plan, str) else bare.plan_text
    return decompose(bare.model_copy(update={"plan_text": text}), model, store, blobs).plan_steps


def planned_templates(
    templates: Sequence[BenchmarkTemplate],
    suite: Sequence[TaskPlan],
    store: EventStore,
    blobs: BlobStore,
    opened: Position,
) -> Mapping[str, Template]:
    """Templates of a benchmark with their plans from the suite of an evaluation that was opened at this position.

    Older evaluations have no suite; their plans are the newest ones of sweeps up to the position. Templates without a
    plan are left out. Raises BlobMissing, BlobErased.
    """
    plans = {item.template: plan_of(json.loads(blobs.get(item.plan).body)) for item in suite}
    if not suite:
        plans = _plans_swept(store, opened)
    return {
        template.template_id: Template(**template.model_dump(), plan_steps=plans[template.template_id])
        for template in templates
        if template.template_id in plans
    }


def without_plan(template: BenchmarkTemplate) -> Template:
    """Template for executors that follow no plan; its plan text is its instruction."""
    return Template(**template.model_dump(), plan_text=template.instruction)


def _plans_swept(store: EventStore, upto: Position) -> dict[str, Plan]:
    sweeps = (item.event for item in read_in_force(store, types=["SweepPlanned"], upto=upto))
    found = [sweep.templates for sweep in sweeps if isinstance(sweep, SweepPlanned)]
    return {each.template_id: each.plan_steps for templates in found for each in templates if each.plan_steps}
