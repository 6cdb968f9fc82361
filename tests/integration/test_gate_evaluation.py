"""An evaluation from frozen benchmark to moved champion, over events only."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from eventlog.events import (
    AnyEvent,
    Artifact,
    ChampionPointed,
    RewardGraded,
    RewardTerms,
    Rules,
    RunFinished,
    RunMissing,
    RunStarted,
    TaskSpec,
    Usage,
)
from eventlog.memory import MemoryStore
from eventlog.store import Append
from gate.alpha import Alpha
from gate.arms import arm
from gate.benchmark import PlannedArmRun, specs
from gate.errors import ForeignRun
from gate.judge import judge
from gate.promote import open_evaluation, settle_evaluation
from projections.benchmarks import BENCHMARKS
from projections.champions import CHAMPION, CHAMPIONS
from projections.engine.views import ReplayedViews
from projections.rewards import REWARDS
from projections.runs import RUNS
from projections.verdicts import VERDICTS
from tests.unit.test_gate_samples import EVALUATION, ZERO, artifact, benchmark

OLD, NEW = artifact(0), artifact(9)
RULES = Rules.seeds()
FROZEN = benchmark(sealed=10, repeats=2, visible=2, templates=("t1", "t2"))


def graded(run: str, group: str, score: int) -> tuple[RunFinished, RewardGraded]:
    usage = Usage(actions=1, wall_microseconds=1, input_tokens=None, output_tokens=None)
    finished = RunFinished(run=run, status="completed", fingerprint=ZERO, end_state=ZERO, mutations=1, usage=usage)
    reward = RewardGraded(
        run=run,
        group=group,
        channel="oracle",
        version="1",
        score=score,
        passed=score > 0,
        reasons=(),
        terms=RewardTerms(score=score, lambda_per_dollar=0, penalty=0),
        prices=0,
        cost=10,
        value=score,
    )
    return finished, reward


def events_of(planned: PlannedArmRun, pinned: Artifact, *, passed: bool, is_missing: bool) -> tuple[AnyEvent, ...]:
    spec, run = planned.spec, planned.spec.spec_id
    task = TaskSpec(
        task_spec_id="ts",
        instruction="do it",
        task_class="c",
        environment=FROZEN.environment,
        max_steps=4,
        success_conditions=(),
    )
    started = RunStarted(
        run=run,
        spec=spec,
        task_spec=task,
        artifact=pinned,
        executor="plan",
        plan=ZERO,
        applied=(),
        arm=planned.arm,
    )
    if is_missing:
        return started, RunMissing(run=run, group=spec.group_id, reason="environment_down", detail="")
    return started, *graded(run, spec.group_id, 1_000_000 * passed)


@pytest.mark.parametrize(("missing", "decision", "now"), [(0, "promote", NEW), (2, "promote", NEW), (3, "void", OLD)])
def test_an_evaluation_is_played_judged_and_settled(missing: int, decision: str, now: Artifact) -> None:
    """The champion passes what the template t1 asks, the challenger everything; a few challenger runs are missing."""
    store = MemoryStore(lambda: datetime(2026, 11, 20, tzinfo=UTC))
    genesis = ChampionPointed(artifact=OLD, by="genesis", reason="start", evaluation=None)
    store.append([Append("champion", (genesis,), "t"), Append("benchmark/bench", (FROZEN,), "t", key="freeze:bench")])
    open_evaluation(store, EVALUATION, FROZEN, OLD, NEW, RULES, "gate")
    lost = [item.spec.spec_id for item in specs(FROZEN, EVALUATION) if item.arm.arm == "challenger"][:missing]
    for planned in specs(FROZEN, EVALUATION):
        is_new, spec = planned.arm.arm == "challenger", planned.spec
        passed, is_missing = is_new or spec.template == "t1", spec.spec_id in lost
        events = events_of(planned, NEW if is_new else OLD, passed=passed, is_missing=is_missing)
        store.append([Append(f"run/{spec.spec_id}", events, "runner")])

    views = ReplayedViews(store, store.head())
    runs, rewards, state = views.find(RUNS), views.find(REWARDS), views.get(BENCHMARKS, "bench")
    assert state is not None
    frozen = state.frozen_event()
    champion = arm(frozen, EVALUATION, "champion", OLD, runs, rewards, RULES)
    challenger = arm(frozen, EVALUATION, "challenger", NEW, runs, rewards, RULES)
    verdict = judge(champion, challenger, frozen, RULES, Alpha(1, 5_000, 5_000))
    settle_evaluation(store, EVALUATION, verdict, 1, "gate")

    assert (verdict.decision, verdict.pairs, verdict.missing) == (decision, 20, missing)
    assert verdict.champion.cost == verdict.challenger.cost == 10 * (40 - missing)
    assert verdict.champion.compared_cost == verdict.champion.cost
    after = ReplayedViews(store, store.head())
    pointed, settled = after.get(CHAMPIONS, CHAMPION), after.get(VERDICTS, EVALUATION)
    assert pointed is not None
    assert settled is not None
    assert pointed.pointed_artifact() == now
    assert settled.verdict_reached() == verdict


def test_a_run_with_another_memory_under_the_same_name_is_refused() -> None:
    """`base@9` before and after a quarantine are two memories; only the digest tells them apart."""
    store = MemoryStore(lambda: datetime(2026, 11, 20, tzinfo=UTC))
    planned = next(item for item in specs(FROZEN, EVALUATION) if item.arm.arm == "challenger")
    other = Artifact(weights="base", memory=NEW.memory.model_copy(update={"digest": "a" * 64}))
    assert str(other) == str(NEW)
    events = events_of(planned, other, passed=True, is_missing=False)
    store.append([Append(f"run/{planned.spec.spec_id}", events, "runner")])
    views = ReplayedViews(store, store.head())
    with pytest.raises(ForeignRun, match="its memory is aaaa"):
        arm(FROZEN, EVALUATION, "challenger", NEW, views.find(RUNS), views.find(REWARDS), RULES)


def test_a_run_of_another_benchmark_is_refused() -> None:
    store = MemoryStore(lambda: datetime(2026, 11, 20, tzinfo=UTC))
    planned = next(item for item in specs(FROZEN, EVALUATION) if item.arm.arm == "champion")
    foreign = replace(planned, arm=planned.arm.model_copy(update={"benchmark": "bench-2"}))
    events = events_of(foreign, OLD, passed=True, is_missing=False)
    store.append([Append(f"run/{planned.spec.spec_id}", events, "runner")])
    views = ReplayedViews(store, store.head())
    with pytest.raises(ForeignRun, match="its benchmark is bench-2, expected bench"):
        arm(FROZEN, EVALUATION, "champion", OLD, views.find(RUNS), views.find(REWARDS), RULES)
