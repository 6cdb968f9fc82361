"""Probes of the grader: agents that must fail, solutions that must pass, and grading without side effects."""

from __future__ import annotations

import random
from http import HTTPStatus
from typing import Final

from ..contract import Graded, Instance, TaskText
from .target import CONTROL, Failed, Skipped, Target
from .walking import random_walk

STEPS: Final = 12
"""Pages of one random walk after the first."""
WALKS_EACH: Final = 4
"""Random walks for each seed."""
LUCK: Final = 10
"""A task may be passed by at most one in this many random walks."""
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
    """Check that random walks do not break the site and pass tasks only by luck."""
    walks = [(seed, number) for seed in target.seeds for number in range(WALKS_EACH)]
    passes = dict.fromkeys((task.task_id for task in target.graded_by_deeds), 0)
    for seed, number in walks:
        with target.new_instance(seed, repeat=number) as instance:
            _walk(target, instance, seed, number)
            for task_id in passes:
                passes[task_id] += target.environment.oracle(instance, task_id).passed
    for task_id, count in passes.items():
        if count * LUCK > len(walks):
            raise Failed(f"{task_id} was passed by {count} of {len(walks)} random walks; expected 1 in {LUCK} at most")
    return (
        f"{len(walks)} walks of {STEPS} steps broke no page; the luckiest task was passed {max([0, *passes.values()])}x"
    )


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
