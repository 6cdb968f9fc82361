"""Probes of the grader: agents that must fail, solutions that must pass, and grading without side effects."""

from __future__ import annotations

import random
from collections.abc import Iterable
from http import HTTPStatus
from math import sqrt
from typing import Final

from ..contract import Graded, Instance, TaskText
from .target import CONTROL, Failed, Skipped, Target
from .walking import random_walk

STEPS: Final = 12
"""Pages of one random walk after the first."""
WALKS_EACH: Final = 4
"""Random walks for each seed at first, and again while a task is undecided."""
MOST_WALKS_EACH: Final = 12
LUCK: Final = 0.25
"""A task is broken if chance passes it at a rate whose whole 95 % interval lies above this one; below, it is easy."""
_Z: Final = 1.96
DRAWS: Final = 16
"""Instances tried for a control task, which must be won at least once."""


def null_agent(target: Target) -> str:
    """Check that no task rewards doing nothing or only opening the first page."""
    for seed in target.seeds:
        with target.new_instance(seed) as instance:
            for done in ("without any action", "after one look at the first page"):
                for task in target.tasks:
                    graded = target.environment.oracle(instance, task.task_id)
                    if graded.passed or graded.score_micro:
                        raise Failed(f"{task.task_id} at seed {seed} {_describe_score(graded)} {done}")
                target.looked_at(instance)
    return f"{len(target.tasks)} tasks at {len(target.seeds)} seeds pay nothing for nothing"


def random_agent(target: Target) -> str:
    """Check that random walks do not break the site, and that no task is passed by most of what chance does.

    Each seed gets WALKS_EACH walks, and more while the interval of a task's rate holds the bound.
    """
    passes = dict.fromkeys((task.task_id for task in target.graded_by_deeds), 0)
    walks = 0
    for first in range(0, MOST_WALKS_EACH, WALKS_EACH):
        for seed in target.seeds:
            for number in range(first, first + WALKS_EACH):
                walks += 1
                for task_id in _passed_by_chance(target, seed, number, passes):
                    passes[task_id] += 1
        rates = {task_id: wilson_interval(count, walks) for task_id, count in passes.items()}
        if not any(low <= LUCK < high and passes[task_id] for task_id, (low, high) in rates.items()):
            break
    for task_id, (low, high) in rates.items():
        if low > LUCK:
            told = f"{passes[task_id]} of {walks} random walks ({low:.2f} to {high:.2f})"
            raise Failed(f"{task_id} was passed by {told}; expected a rate that may be at most {LUCK}")
    return f"{walks} walks of {STEPS} steps broke no page; the luckiest task was passed {max([0, *passes.values()])}x"


def _passed_by_chance(target: Target, seed: int, number: int, tasks: Iterable[str]) -> list[str]:
    """Tasks that one random walk passed. Raises Failed if it broke a page."""
    with target.new_instance(seed, repeat=number) as instance:
        _walk(target, instance, seed, number)
        return [task_id for task_id in tasks if target.environment.oracle(instance, task_id).passed]


def wilson_interval(passed: int, walks: int) -> tuple[float, float]:
    """95 % interval of a rate (Wilson 1927); from 0 to 1 without a walk."""
    if not walks:
        return 0.0, 1.0
    rate, spread = passed / walks, _Z * _Z / walks
    half = _Z * sqrt(rate * (1 - rate) / walks + spread / (4 * walks))
    return (rate + spread / 2 - half) / (1 + spread), (rate + spread / 2 + half) / (1 + spread)


def _walk(target: Target, instance: Instance, seed: int, number: int) -> None:
    """One random walk. Raises Failed if a page breaks."""
    rng = random.Random(f"probe/walk/{target.rng_seed}/{seed}/{number}")  # noqa: S311 (repeatable)
    if target.deeds is not None and target.deeds.walk is not None:
        target.deeds.walk(instance, rng, STEPS)
        return
    with target.visit(instance) as session:
        for page in random_walk(session, rng, STEPS):
            if page.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
                where = page.path.partition("?")[0]
                raise Failed(f"a random walk at seed {seed} met status {page.status} at {where}")


def oracle_agent(target: Target) -> str:
    """Check that a known solution passes every task; a control task must be won at least once in several instances."""
    for task in target.tasks:
        if task.cluster == CONTROL:
            _require_win(target, task)
            continue
        for seed in target.seeds:
            with target.new_instance(seed) as instance:
                graded = target.solve_task(instance, task.task_id, seed)
            if not graded.passed:
                raise Failed(f"{task.task_id} at seed {seed} is failed by its known solution: {_why(graded)}")
    return f"{len(target.tasks)} tasks at {len(target.seeds)} seeds are passed by those who know the answer"


def _require_win(target: Target, task: TaskText) -> None:
    for repeat in range(DRAWS):
        with target.new_instance(target.seeds[0], repeat=repeat) as instance:
            if target.solve_task(instance, task.task_id, target.seeds[0]).passed:
                return
    raise Failed(f"{task.task_id} was never won in {DRAWS} instances; expected chance to grant some")


def looking_only(target: Target) -> str:
    """Check that grading each task twice gives the same grade and leaves the instance unchanged."""
    seed = target.seeds[0]
    with target.new_instance(seed) as instance:
        for when in ("fresh", "used"):
            before = target.environment.state(instance), target.environment.mutations(instance)
            for task in target.tasks:
                first, second = (target.environment.oracle(instance, task.task_id) for _ in range(2))
                if first != second:
                    raise Failed(f"{task.task_id} of a {when} instance was graded twice and differently")
            if (target.environment.state(instance), target.environment.mutations(instance)) != before:
                raise Failed(f"grading changed a {when} instance")
            if when == "fresh":
                try:
                    target.use_instance(instance, seed)
                except Skipped:
                    return "a fresh instance is graded without being changed; none could be used"
    return f"{len(target.tasks)} tasks are graded twice alike, and nothing changes by it"


def _describe_score(graded: Graded) -> str:
    return "is passed" if graded.passed else f"scores {graded.score_micro} millionths"


def _why(graded: Graded) -> str:
    return "; ".join(graded.reasons) or "the oracle gave no reason"
