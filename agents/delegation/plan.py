"""Plans: subtasks with dependencies that are enforced. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict

from .envelopes import Envelope, safe_id

SubtaskStatus = Literal["pending", "in_progress", "completed", "failed"]
COMPLETED_ABOVE: Final = 300_000
"""A subtask is completed by a worker whose confidence lies above this."""

MOST_TRIES: Final = 5
"""So many iterations without completion, and a subtask is promoted to a sub-manager, or given up as failed."""

_LONGEST: Final = 500


class Subtask(BaseModel):
    """A part of a task, which may begin when those that it depends on are completed."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    id: str
    description: str
    dependencies: tuple[str, ...] = ()
    success_criteria: str = ""


@dataclass(frozen=True, slots=True)
class PlanFault:
    """Why a plan cannot be followed."""

    why: str


def read_subtasks(value: object) -> tuple[Subtask, ...]:
    """The subtasks in a manager's answer. One without an id is called `subtask_0` and so on."""
    found = []
    for number, each in enumerate(value[:200] if isinstance(value, list) else []):
        facts = each if isinstance(each, Mapping) else {"description": each}
        told = facts.get("description") or facts.get("task")
        if not isinstance(told, str) or not told.strip():
            continue
        needs = facts.get("dependencies")
        names = [safe_id(one) for one in needs] if isinstance(needs, list) else []
        criteria = facts.get("success_criteria")
        found.append(
            Subtask(
                id=safe_id(facts.get("id")) or f"subtask_{number}",
                description=told.strip()[:_LONGEST],
                dependencies=tuple(dict.fromkeys(filter(None, names))),
                success_criteria=criteria.strip()[:_LONGEST] if isinstance(criteria, str) else "",
            )
        )
    return tuple(found)


def plan_fault(subtasks: Sequence[Subtask], most: int) -> PlanFault | None:
    """Why subtasks make no plan: too many, a name twice, an unknown dependency, a circle. None if they do."""
    names = [each.id for each in subtasks]
    if len(names) > most:
        return PlanFault(f"{len(names)} subtasks; expected at most {most}")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        return PlanFault(f"the subtask {twice[0]} stands twice; expected an id of its own for each")
    for each in subtasks:
        unknown = sorted(set(each.dependencies) - set(names))
        if unknown:
            return PlanFault(f"{each.id} depends on {unknown[0]}, which is no subtask of the plan")
    cycle = find_cycle({each.id: each.dependencies for each in subtasks})
    return PlanFault(f"its dependencies go in a circle: {' -> '.join(cycle)}") if cycle else None


def find_cycle(needs: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """A circle of dependencies, its first name repeated at the end; empty if there is none."""
    open_names = set(needs)
    while ready := {name for name in open_names if not open_names.intersection(needs[name])}:
        open_names -= ready
    if not open_names:
        return ()
    path = [min(open_names)]
    while True:
        following = min(open_names.intersection(needs[path[-1]]))
        if following in path:
            return (*path[path.index(following) :], following)
        path.append(following)


@dataclass(frozen=True, slots=True)
class PlanStep:
    """A subtask and how far it is. `tries` counts the iterations in which a worker had it."""

    subtask: Subtask
    status: SubtaskStatus
    tries: int


def actionable(steps: Sequence[PlanStep]) -> tuple[PlanStep, ...]:
    """The subtasks that may be delegated: not completed, all they depend on completed. A failed one may be repeated."""
    done = {each.subtask.id for each in steps if each.status == "completed"}
    return tuple(each for each in steps if each.status != "completed" and done.issuperset(each.subtask.dependencies))


def pending_count(steps: Iterable[PlanStep]) -> int:
    """How many subtasks are not completed and were not given up."""
    return sum(each.status in {"pending", "in_progress"} for each in steps)


def blocked_by_plan(envelopes: Iterable[Envelope], steps: Sequence[PlanStep]) -> tuple[Envelope, ...]:
    """The envelopes whose subtask waits for another one."""
    known = {each.subtask.id for each in steps}
    ready = {each.subtask.id for each in actionable(steps)}
    done = {each.subtask.id for each in steps if each.status == "completed"}
    return tuple(each for each in envelopes if each.subtask_id in known and each.subtask_id not in ready | done)


def status_after(confidence: int) -> SubtaskStatus:
    """The status of a subtask after a worker returned with this confidence."""
    return "completed" if confidence > COMPLETED_ABOVE else "failed"


def needs_submanager(step: PlanStep) -> bool:
    """True if so many iterations did not complete a subtask that a sub-manager shall have it."""
    return step.status != "completed" and step.tries >= MOST_TRIES


def plan_lines(steps: Sequence[PlanStep]) -> tuple[str, ...]:
    """The plan as lines for a manager: status, name, what it waits for."""
    ready = {each.subtask.id for each in actionable(steps)}
    lines = []
    for each in steps:
        waits = "" if each.subtask.id in ready or each.status == "completed" else " (waits)"
        needs = f" after {', '.join(each.subtask.dependencies)}" if each.subtask.dependencies else ""
        lines.append(f"- [{each.status}] {each.subtask.id}{needs}{waits}: {each.subtask.description[:160]}")
    return tuple(lines)
