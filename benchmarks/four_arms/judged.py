"""Arms at the real gate, and how many sealed seeds each passed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from agents.executors.executor import Executor
from agents.learning.advice import advice_lines, worth_telling
from api.evaluations.evaluate import challenge, play_and_settle
from api.queries.facts import require
from api.sweeps.executors import audience_of
from api.sweeps.jobs import pieces_of
from eventlog.blobs import Blob
from eventlog.events import Artifact, BenchmarkFrozen, BenchmarkTemplate, Rules
from gate.benchmark import freeze_benchmark
from gate.promote import freeze_into
from projections.benchmarks import BENCHMARKS
from projections.rewards import REWARDS
from projections.runs import RUNS
from projections.verdicts import VERDICTS

from .effort import SITE
from .stage import ACTOR, Scene

CHALLENGERS: Final = 3
BENCHMARK: Final = "arms-sealed"


@dataclass(frozen=True, slots=True)
class Judged:
    """One evaluation: its decision, and of each arm whether each sealed seed was passed; and the runs that are missing.

    An arm's figures are those of the first repeat; the gate repeats what looks like a loss.
    """

    evaluation: str
    decision: str
    champion: Mapping[int, bool]
    challenger: Mapping[int, bool]
    missing: int


def freeze_sealed(scene: Scene) -> BenchmarkFrozen:
    """The benchmark of the task at the sealed seeds, for as many challengers as there are arms beside the base."""
    if (state := scene.house.views().get(BENCHMARKS, BENCHMARK)) is not None:
        return state.frozen_event()
    plain = scene.task
    task = BenchmarkTemplate(
        template_id=plain.template_id,
        cluster=plain.cluster,
        oracle_task_id=plain.oracle_task_id,
        instruction=plain.instruction,
        max_steps=plain.max_steps,
    )
    frozen = freeze_benchmark(BENCHMARK, SITE, [task], [], scene.effort.sealed_seeds, 1, challengers=CHALLENGERS)
    freeze_into(scene.house.store, frozen, ACTOR)
    return frozen


def judge(scene: Scene, frozen: BenchmarkFrozen, executor: Executor, challenger: Artifact, memory: Blob) -> Judged:
    """Play a challenger and the champion on every sealed seed, greedily, and let the gate decide."""
    house = scene.house
    house.blobs.put([memory])
    evaluation = _earlier_evaluation(scene, challenger)
    if evaluation is None:
        rules = Rules.default("sign_flip")
        rules = rules.model_copy(update={"min_pairs": min(rules.min_pairs, scene.effort.sealed)})
        evaluation = challenge(house, frozen, challenger, rules, executor)
        course = replace(scene.course, rules=rules)
        scene.reporter.say(
            play_and_settle(house, scene.placed.environment, evaluation, course, scene.reporter, executor)
        )
    views = house.views()
    rewards, runs = views.find(REWARDS, f"{evaluation}__"), views.find(RUNS, f"{evaluation}__")

    def passed(arm: str) -> dict[int, bool]:
        first = (run for run in rewards if run.startswith(f"{evaluation}__{arm}__") and run.endswith("__r0"))
        return {runs[run].env_seed: rewards[run].passed for run in first}

    state = require(views.get(VERDICTS, evaluation))
    found = Judged(
        evaluation, require(state.decision), passed("champion"), passed("challenger"), len(runs.keys() - rewards.keys())
    )
    for arm, seeds in (("champion", found.champion), ("challenger", found.challenger)):
        scene.reporter.say(f"{evaluation}, {arm}: {sum(seeds.values())} of {len(seeds)} sealed seeds passed")
    return found


def _earlier_evaluation(scene: Scene, challenger: Artifact) -> str | None:
    """The evaluation of this challenger that was decided by an earlier call, if any."""
    for key, state in scene.house.views().find(VERDICTS).items():
        _, judged = state.artifacts()
        if state.decision is not None and (judged.weights, judged.memory.digest) == (
            challenger.weights,
            challenger.memory.digest,
        ):
            return key
    return None


def lines_told(scene: Scene, executor: Executor, artifact: Artifact, memory: Blob) -> tuple[str, ...]:
    """What memory tells the executor's policy with the task."""
    scene.house.blobs.put([memory])
    pieces = pieces_of(scene.house, artifact)
    return advice_lines(worth_telling(scene.task, SITE, pieces, require(audience_of(executor))))
