"""Benchmarks of frozen tasks and seeds, and the runs that both arms play on them. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from eventlog.chain import digest
from eventlog.events import ArmName, ArmRun, BenchmarkFrozen, BenchmarkTask, BenchmarkTemplate, Rules, Spec
from projections.benchmarks import Instance, instances_of
from projections.environments import EnvironmentState

from .arms import Arm
from .errors import (
    AlphaTooSmall,
    DuplicateTask,
    EmptyBenchmark,
    NotFresh,
    SeedBothWays,
    TooFewRepeats,
    UnknownTask,
    Unseedable,
)

ARMS: tuple[ArmName, ArmName] = ("champion", "challenger")
ALPHA = 50_000
"""Default alpha of a benchmark, shared by all its challengers, in millionths."""
CHALLENGERS = 10
SEEDING = "two_seeds"
"""Name of the probe that an environment passes if each seed gives a reproducible and distinct instance."""


Seeds = Sequence[int] | Mapping[str, Sequence[int]]
"""Seeds of every template, or of each by its id."""


@dataclass(frozen=True, slots=True)
class PlannedArmRun:
    """One run to play: its spec and the place of the evaluation that it fills."""

    spec: Spec
    arm: ArmRun


def freeze_benchmark(
    name: str,
    environment: str,
    templates: Sequence[BenchmarkTemplate],
    visible_seeds: Seeds,
    sealed_seeds: Seeds,
    repeats: int,
    *,
    alpha: int = ALPHA,
    challengers: int = CHALLENGERS,
    successor_of: str | None = None,
) -> BenchmarkFrozen:
    """Build a benchmark of templates at seeds, played `repeats` times by both arms.

    Seeds are those of each template by its id (see `deal_seeds`), or the same for all: then instances at one seed are
    not independent, and a verdict's unit is the seed. `alpha` (millionths) is shared by all `challengers`. Templates
    and tasks are ordered by template_id, then seed, so the digest does not depend on the order of arguments.
    Raises EmptyBenchmark, TooFewRepeats, DuplicateTask, SeedBothWays, AlphaTooSmall.
    """
    names = [template.template_id for template in templates]
    visible, sealed = _by_template(names, visible_seeds), _by_template(names, sealed_seeds)
    _refuse_unusable(name, templates, visible, sealed, repeats)
    if challengers < 1 or alpha < challengers:
        raise AlphaTooSmall(benchmark=name, actual=alpha, challengers=challengers)
    ordered = tuple(sorted(templates, key=lambda template: template.template_id.encode()))
    tasks = tuple(
        BenchmarkTask(template=key, env_seed=seed, is_sealed=seed in sealed[key])
        for key in (template.template_id for template in ordered)
        for seed in sorted({*visible[key], *sealed[key]})
    )
    content: dict[str, Any] = {
        "environment": environment,
        "templates": ordered,
        "tasks": tasks,
        "repeats": repeats,
        "alpha": alpha,
        "challengers": challengers,
    }
    return BenchmarkFrozen(benchmark=name, successor_of=successor_of, digest=_digest(content), **content)


def _digest(content: Mapping[str, Any]) -> str:
    plain = {
        name: [each.model_dump(mode="json") for each in value] if isinstance(value, tuple) else value
        for name, value in content.items()
    }
    return digest(plain).hex()


def deal_seeds(templates: Iterable[str], seeds: Sequence[int]) -> dict[str, tuple[int, ...]]:
    """Seeds of each template: consecutive parts of `seeds`, as equal as can be, in order of template id.

    With fewer seeds than templates some templates share a seed.
    """
    names = sorted(templates, key=str.encode)
    if len(seeds) < len(names):
        return {name: tuple(seeds[place % len(seeds) :][:1]) if seeds else () for place, name in enumerate(names)}
    ends = [len(seeds) * place // len(names) for place in range(len(names) + 1)]
    return {name: tuple(seeds[ends[place] : ends[place + 1]]) for place, name in enumerate(names)}


def _by_template(names: Sequence[str], seeds: Seeds) -> Mapping[str, Sequence[int]]:
    return {name: seeds.get(name, ()) if isinstance(seeds, Mapping) else seeds for name in names}


def _refuse_unusable(
    name: str,
    templates: Sequence[BenchmarkTemplate],
    visible: Mapping[str, Sequence[int]],
    sealed: Mapping[str, Sequence[int]],
    repeats: int,
) -> None:
    if not templates or not all(sealed.values()):
        raise EmptyBenchmark(benchmark=name, actual="sealed seed" if templates else "template")
    if repeats < 1:
        raise TooFewRepeats(benchmark=name, actual=repeats, expected=1)
    for what, several in (
        ("template", [[template.template_id for template in templates]]),
        ("oracle task", [[template.oracle_task_id for template in templates]]),
        ("visible seed", visible.values()),
        ("sealed seed", sealed.values()),
    ):
        twice = next((each for each in map(_first_repeated, several) if each is not None), None)
        if twice is not None:
            raise DuplicateTask(benchmark=name, what=what, actual=twice)
    both = sorted(seed for key in sealed for seed in {*visible[key]} & {*sealed[key]})
    if both:
        raise SeedBothWays(benchmark=name, actual=both[0])


def _first_repeated(values: Iterable[object]) -> object | None:
    seen: set[object] = set()
    for value in values:
        if value in seen:
            return value
        seen.add(value)
    return None


def refuse_unfit_benchmark(
    benchmark: BenchmarkFrozen,
    environment: EnvironmentState,
    seen: Collection[Instance],
    held: Collection[Instance],
) -> None:
    """Refuse a benchmark whose tasks cannot be graded or seeded, or whose instances are not fresh.

    A fresh instance was neither `seen` by a run outside evaluations, which may have been learned from, nor `held` by
    another benchmark, whose alpha would be spent twice. The rule covers visible instances too: the instances of a
    benchmark are never learned from. Raises UnknownTask, Unseedable, NotFresh.
    """
    for template in benchmark.templates:
        if template.oracle_task_id not in environment.tasks:
            known = ", ".join(sorted(environment.tasks)) or "none"
            raise UnknownTask(benchmark=benchmark.benchmark, actual=template.oracle_task_id, expected=known)
    outcome = next((probe.outcome for probe in environment.probes if probe.name == SEEDING), "not asked")
    if outcome != "passed":
        raise Unseedable(benchmark=benchmark.benchmark, environment=benchmark.environment, actual=outcome)
    clashes = (("was played by a run that may be learned from", seen), ("belongs to another benchmark", held))
    for place in instances_of(benchmark):
        for what, instances in clashes:
            if place in instances:
                _, task, seed = place
                raise NotFresh(
                    benchmark=benchmark.benchmark,
                    environment=benchmark.environment,
                    task=task,
                    actual=seed,
                    what=what,
                )


def sealed_instances(benchmark: BenchmarkFrozen) -> int:
    """Number of sealed instances of a benchmark."""
    return sum(task.is_sealed for task in benchmark.tasks)


def specs(
    benchmark: BenchmarkFrozen, evaluation: str, tasks: Sequence[BenchmarkTask] | None = None
) -> tuple[PlannedArmRun, ...]:
    """Plan every run of an evaluation, or of some of its tasks: repeat by repeat, task by task, with alternating arms.

    With this order both arms run under the same conditions, and an interrupted evaluation has whole repeats.
    """
    chosen = benchmark.tasks if tasks is None else tasks
    return tuple(_interleave(benchmark, evaluation, chosen, range(benchmark.repeats)))


def confirming_specs(
    benchmark: BenchmarkFrozen, evaluation: str, instances: Iterable[tuple[str, int, range]]
) -> tuple[PlannedArmRun, ...]:
    """Plan extra repeats, in both arms, of sealed instances: template, seed, and the numbers of the repeats."""
    again = {(template, seed): repeats for template, seed, repeats in instances}
    chosen = [
        (task, again[task.template, task.env_seed])
        for task in benchmark.tasks
        if task.is_sealed and (task.template, task.env_seed) in again
    ]
    last = max((repeats.stop for _, repeats in chosen), default=0)
    return tuple(
        run
        for repeat in range(last)
        for run in _interleave(benchmark, evaluation, [task for task, own in chosen if repeat in own], [repeat])
    )


def replay_specs(
    planned: Iterable[PlannedArmRun], champion: Arm, challenger: Arm, rules: Rules
) -> tuple[PlannedArmRun, ...]:
    """Plan the lost ones of these runs again under another name, each at most `rules.replays` times.

    A run that was interrupted is planned again as well, and that counts as none of these times.
    """
    arms, found = {"champion": champion, "challenger": challenger}, []
    for run in planned:
        arm, place = arms[run.arm.arm], (run.spec.template, run.spec.env_seed, run.arm.repeat)
        lost, tries = arm.lost.get(place, 0), arm.lost.get(place, 0) + arm.interrupted.get(place, 0)
        if arm.result_at(place) is None and tries and lost <= rules.replays:
            again = f"{run.spec.spec_id}__again{tries}"
            found.append(replace(run, spec=run.spec.model_copy(update={"spec_id": again})))
    return tuple(found)


def most_runs(benchmark: BenchmarkFrozen) -> int:
    """Number of runs of both arms on the whole benchmark, without confirming repeats."""
    return len(ARMS) * len(benchmark.tasks) * benchmark.repeats


def most_confirming_runs(benchmark: BenchmarkFrozen, rules: Rules) -> int:
    """Number of runs of both arms that confirming repeats take at most.

    An evaluation that would promote has an instance on which the challenger did better, in a template that did not
    lose. All others may have to be played again.
    """
    return len(ARMS) * max(0, sealed_instances(benchmark) - 1) * rules.confirm_repeats


def blocks(
    benchmark: BenchmarkFrozen, evaluation: str, ordered: Sequence[BenchmarkTask], size: int
) -> tuple[tuple[PlannedArmRun, ...], ...]:
    """Plan an evaluation with early stopping in blocks of `size` sealed instances; visible ones are in the first."""
    visible = [task for task in benchmark.tasks if not task.is_sealed]
    cut = [list(ordered[start : start + size]) for start in range(0, len(ordered), size)] or [[]]
    return tuple(specs(benchmark, evaluation, tasks) for tasks in [visible + cut[0], *cut[1:]])


def _interleave(
    benchmark: BenchmarkFrozen, evaluation: str, tasks: Sequence[BenchmarkTask], repeats: Iterable[int]
) -> Iterator[PlannedArmRun]:
    for repeat in repeats:
        for task in tasks:
            for arm in ARMS:
                yield _plan_arm_run(benchmark, evaluation, task, arm, repeat)


def _plan_arm_run(
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
