"""Frozen tasks and seeds, and the runs that both arms play of them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from eventlog.chain import digest
from eventlog.events import ArmName, ArmRun, BenchmarkFrozen, BenchmarkTask, Spec, Template

from .errors import DuplicateTask, EmptyBenchmark, SeedBothWays, TooFewRepeats

ARMS: tuple[ArmName, ArmName] = ("champion", "challenger")


@dataclass(frozen=True, slots=True)
class PlannedArmRun:
    """One run to play: what to execute and which place of the evaluation it fills."""

    spec: Spec
    arm: ArmRun


def freeze(
    name: str,
    environment: str,
    templates: Sequence[Template],
    visible_seeds: Sequence[int],
    sealed_seeds: Sequence[int],
    repeats: int,
) -> BenchmarkFrozen:
    """Every template at every seed, each played `repeats` times by both arms.

    Templates and tasks are ordered by template_id, then seed, so the digest does not depend on the order of arguments.
    Raises EmptyBenchmark, TooFewRepeats, DuplicateTask, SeedBothWays.
    """
    _refuse_unusable(name, templates, visible_seeds, sealed_seeds, repeats)
    ordered = tuple(sorted(templates, key=lambda template: template.template_id.encode()))
    sealed = frozenset(sealed_seeds)
    tasks = tuple(
        BenchmarkTask(template=template.template_id, env_seed=seed, is_sealed=seed in sealed)
        for template in ordered
        for seed in sorted({*visible_seeds, *sealed_seeds})
    )
    content = {
        "environment": environment,
        "templates": [template.model_dump(mode="json") for template in ordered],
        "tasks": [task.model_dump(mode="json") for task in tasks],
        "repeats": repeats,
    }
    return BenchmarkFrozen(
        benchmark=name,
        environment=environment,
        templates=ordered,
        tasks=tasks,
        repeats=repeats,
        digest=digest(content).hex(),
    )


def _refuse_unusable(
    name: str, templates: Sequence[Template], visible: Sequence[int], sealed: Sequence[int], repeats: int
) -> None:
    if not templates or not sealed:
        raise EmptyBenchmark(benchmark=name, actual="sealed seed" if templates else "template")
    if repeats < 1:
        raise TooFewRepeats(benchmark=name, actual=repeats, expected=1)
    for what, values in (
        ("template", [template.template_id for template in templates]),
        ("visible seed", visible),
        ("sealed seed", sealed),
    ):
        twice = _first_repeated(values)
        if twice is not None:
            raise DuplicateTask(benchmark=name, what=what, actual=twice)
    both = sorted(set(visible) & set(sealed))
    if both:
        raise SeedBothWays(benchmark=name, actual=both[0])


def _first_repeated(values: Iterable[object]) -> object | None:
    seen: set[object] = set()
    for value in values:
        if value in seen:
            return value
        seen.add(value)
    return None


def specs(benchmark: BenchmarkFrozen, evaluation: str) -> tuple[PlannedArmRun, ...]:
    """Every run of an evaluation: repeat by repeat, task by task, champion and challenger alternating.

    So both arms meet the same conditions in time, and an evaluation that is cut short has whole repeats.
    """
    return tuple(
        _planned(benchmark, evaluation, task, arm, repeat)
        for repeat in range(benchmark.repeats)
        for task in benchmark.tasks
        for arm in ARMS
    )


def _planned(
    benchmark: BenchmarkFrozen, evaluation: str, task: BenchmarkTask, arm: ArmName, repeat: int
) -> PlannedArmRun:
    group_id = f"{evaluation}__{arm}__{task.template}__seed{task.env_seed}"
    spec = Spec(
        spec_id=f"{group_id}__r{repeat}",
        template=task.template,
        env_seed=task.env_seed,
        group_id=group_id,
        sibling_index=repeat,
        sweep=evaluation,
    )
    place = ArmRun(
        evaluation=evaluation, benchmark=benchmark.benchmark, arm=arm, repeat=repeat, is_sealed=task.is_sealed
    )
    return PlannedArmRun(spec, place)
