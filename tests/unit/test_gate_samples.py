"""Builders that the tests of the gate share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from eventlog.chain import digest
from eventlog.events import ArmName, Artifact, BenchmarkFrozen, BenchmarkTask, BenchmarkTemplate, Memory, Template
from gate.alpha import Alpha
from gate.arms import Arm, Place, Result
from projections.rewards import RewardState
from projections.runs import RunState

ZERO = "0" * 64
EVALUATION = "ev1"
HALF = 500_000
UNSPENT = Alpha(0, 0, 0)
"""Of an evaluation that was opened before the ledger."""


def template(name: str = "t1") -> Template:
    return Template(
        template_id=name, cluster="c", oracle_task_id=f"oracle-{name}", instruction="do it", plan_text="do it"
    )


def artifact(upto: int = 0, weights: str = "base", without: tuple[str, ...] = ()) -> Artifact:
    return Artifact(weights=weights, memory=Memory(upto=upto, folds={"rewrites": 1}, without=without, digest=ZERO))


def benchmark(sealed: int, repeats: int = 1, visible: int = 0, templates: Sequence[str] = ("t1",)) -> BenchmarkFrozen:
    """Sealed seeds from 0, visible seeds from 1000."""
    kinds = [
        BenchmarkTemplate(template_id=name, cluster="c", oracle_task_id=f"oracle-{name}", instruction="", max_steps=40)
        for name in templates
    ]
    seeds = [*range(sealed), *range(1000, 1000 + visible)]
    tasks = [
        BenchmarkTask(template=name, env_seed=seed, is_sealed=seed < 1000)
        for name in sorted(templates)
        for seed in seeds
    ]
    content = {"tasks": [task.model_dump(mode="json") for task in tasks], "repeats": repeats}
    return BenchmarkFrozen(
        benchmark="bench",
        environment="shop",
        templates=tuple(kinds),
        tasks=tuple(tasks),
        repeats=repeats,
        alpha=50_000,
        challengers=10,
        successor_of=None,
        digest=digest(content).hex(),
    )


def sealed_places(frozen: BenchmarkFrozen) -> list[Place]:
    return [
        (task.template, task.env_seed, repeat)
        for task in frozen.tasks
        if task.is_sealed
        for repeat in range(frozen.repeats)
    ]


def an_arm(
    frozen: BenchmarkFrozen,
    name: ArmName,
    scores: Sequence[int | None],
    *,
    total_cost: int | None = None,
    costs: Sequence[int | None] | None = None,
    evaluation: str = EVALUATION,
    pinned: Artifact | None = None,
) -> Arm:
    """Scores of the sealed places in order, None where missing.

    `costs` are of the same places; without them the whole cost lies on the first result.
    """
    places = sealed_places(frozen)
    sealed: dict[Place, Result] = {}
    for index, (place, score) in enumerate(zip(places, scores, strict=True)):
        if score is not None:
            lumped = None if total_cost is None else total_cost if not sealed else 0
            sealed[place] = Result(score, score >= HALF, lumped if costs is None else costs[index])
    return Arm(
        name=name,
        artifact=pinned or artifact(0 if name == "champion" else 9),
        evaluation=evaluation,
        benchmark=frozen.digest,
        sealed=sealed,
        visible={},
        missing=frozenset(places) - sealed.keys(),
    )


def played(
    frozen: BenchmarkFrozen, name: ArmName, pinned: Artifact, scores: Mapping[Place, int], cost: int | None = 1
) -> tuple[dict[str, RunState], dict[str, RewardState]]:
    """One graded run for each place, as the projections hold it."""
    sealed = {(task.template, task.env_seed): task.is_sealed for task in frozen.tasks}
    runs, rewards = {}, {}
    for (task, seed, repeat), score in scores.items():
        run = f"{name}-{task}-{seed}-{repeat}"
        runs[run] = RunState(
            run=run,
            sweep=EVALUATION,
            template=task,
            env_seed=seed,
            sibling_index=repeat,
            environment=frozen.environment,
            artifact=str(pinned),
            memory=pinned.memory.digest,
            evaluation=EVALUATION,
            benchmark=frozen.benchmark,
            arm=name,
            repeat=repeat,
            is_sealed=sealed[task, seed],
            status="completed",
        )
        rewards[run] = RewardState(run=run, score=score, passed=score == 1_000_000, cost=cost)
    return runs, rewards
