"""What a benchmark holds is never learned from, whatever a run says of itself. Properties of what keeps them apart."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.learning.trial_results import Outcomes, credits_of
from agents.rollouts.errors import BenchmarkInstance
from agents.rollouts.sweep import SeedSweep, plan_sweep
from eventlog.events import BenchmarkFrozen, BenchmarkTemplate, SftQuery, SweepPlanned, Template
from gate.benchmark import freeze_benchmark, refuse_unfit_benchmark
from gate.errors import NotFresh
from projections.benchmarks import BenchmarkState, Instance, benchmark_instances, instances_of, seen_instances
from projections.datasets.plan_rows import judge_sft
from projections.environments import EnvironmentState, ProbeFinding
from projections.rewards import RewardState
from projections.rewrites import RewriteState
from projections.runs import RunState
from tests.unit.test_agent_samples import EMPTY, OPEN

ORACLES = {"short": {"buy"}, "long": {"buy"}, "other": {"sell"}, "retold": {"buy", "sell"}}
TASK = {"short": "buy", "long": "buy", "other": "sell"}
SITE = EnvironmentState(
    environment="shop", tasks=("buy", "sell"), probes=(ProbeFinding(name="two_seeds", outcome="passed", detail=""),)
)
SEEDS = st.integers(min_value=0, max_value=6)


@dataclass
class Log:
    """What was planned and frozen, in order."""

    sweeps: list[SweepPlanned] = field(default_factory=list)
    benchmarks: list[BenchmarkFrozen] = field(default_factory=list)

    def held(self) -> frozenset[Instance]:
        return frozenset(place for each in self.benchmarks for place in instances_of(each))

    def sweep(self, templates: set[str], seeds: set[int]) -> None:
        """Plan a sweep, unless it is refused. Its templates go by any name that the oracle task has."""
        found = [
            Template(template_id=name, cluster="c", oracle_task_id=TASK[name], instruction="", plan_steps=(OPEN,))
            for name in sorted(templates)
        ]
        generator = SeedSweep(f"s{len(self.sweeps)}", found, sorted(seeds), 1)
        meets = {("shop", TASK[name], seed) for name in templates for seed in seeds} & self.held()
        if not meets:
            self.sweeps.append(plan_sweep(generator, "shop", EMPTY, rng_seed=7, frozen=self.held()))
            return
        with pytest.raises(BenchmarkInstance) as refused:
            plan_sweep(generator, "shop", EMPTY, rng_seed=7, frozen=self.held())
        assert ("shop", refused.value.facts["task"], refused.value.facts["actual"]) in meets

    def freeze(self, name: str, visible: set[int], sealed: set[int]) -> None:
        """Freeze a benchmark of one task, unless it is refused."""
        task = BenchmarkTemplate(template_id=name, cluster="c", oracle_task_id=TASK[name], instruction="", max_steps=9)
        number = f"b{len(self.benchmarks)}"
        frozen = freeze_benchmark(number, "shop", [task], sorted(visible - sealed), sorted(sealed), 1)
        seen = seen_instances(self.sweeps, (), {})
        meets = (seen | self.held()) & {*instances_of(frozen)}
        if not meets:
            refuse_unfit_benchmark(frozen, SITE, seen, self.held())
            self.benchmarks.append(frozen)
            return
        with pytest.raises(NotFresh) as refused:
            refuse_unfit_benchmark(frozen, SITE, seen, self.held())
        assert ("shop", refused.value.facts["task"], refused.value.facts["actual"]) in meets


NAMES = st.sampled_from(sorted(TASK))
STEPS = st.one_of(
    st.tuples(st.just("sweep"), st.sets(NAMES, min_size=1), st.sets(SEEDS, min_size=1, max_size=3)),
    st.tuples(st.just("freeze"), NAMES, st.sets(SEEDS, max_size=2), st.sets(SEEDS, min_size=1, max_size=2)),
)


@given(st.lists(STEPS, max_size=8))
def test_no_instance_is_ever_both_swept_and_held_in_whatever_order_they_came(steps: list[tuple[str, ...]]) -> None:
    log = Log()
    for kind, *rest in steps:
        getattr(log, kind)(*rest)
    assert not seen_instances(log.sweeps, (), {}) & log.held()
    assert len(log.held()) == sum(len(instances_of(each)) for each in log.benchmarks)


@st.composite
def runs(draw: st.DrawFn) -> RunState:
    """A run that passed, and says of itself whatever it likes."""
    return RunState(
        run=f"r{draw(st.integers(0, 10_000))}",
        sweep=draw(st.sampled_from(["s1", "eval-1", "ext-1"])),
        group=draw(st.sampled_from(["g1", "g2"])),
        template=draw(st.sampled_from([*sorted(ORACLES), "unheard-of"])),
        env_seed=draw(SEEDS),
        candidate=draw(st.sampled_from([None, "rw"])),
        applied=("rw",),
        environment=draw(st.sampled_from(["shop", "site"])),
        evaluation=draw(st.sampled_from([None, None, "eval-1"])),
        benchmark=draw(st.sampled_from([None, "b"])),
        is_sealed=draw(st.sampled_from([None, False, True])),
        executor="plan",
        status="completed",
    )


HELD: frozenset[Instance] = benchmark_instances(
    [
        BenchmarkState(
            benchmark="b",
            environment="shop",
            templates=({"template_id": "theirs", "oracle_task_id": "buy"},),
            tasks=({"template": "theirs", "env_seed": 3}, {"template": "theirs", "env_seed": 5}),
        )
    ]
)


def rewarded(run: RunState) -> RewardState:
    return RewardState(run=run.run, group=run.group, score=1_000_000, passed=True, value=1_000_000)


@given(st.lists(runs(), max_size=12))
def test_no_run_on_a_benchmarks_instance_enters_a_dataset(found: list[RunState]) -> None:
    played = {run.run: run for run in found}
    rewards = {key: rewarded(run) for key, run in played.items()}
    reasons = judge_sft(SftQuery(), played, rewards, HELD, ORACLES, {})
    for key, run in played.items():
        tasks = ORACLES.get(run.template, {"buy", "sell"})
        is_held = any((run.environment, task, run.env_seed) in HELD for task in tasks)
        assert (reasons[key] is None) is (run.evaluation is None and not is_held)


@given(st.lists(runs(), max_size=12, unique_by=lambda run: run.run))
def test_no_run_of_an_evaluation_is_credited(found: list[RunState]) -> None:
    template = Template(template_id="short", cluster="c", oracle_task_id="buy", instruction="", plan_steps=(OPEN,))
    specs = [
        spec.model_copy(update={"spec_id": run.run, "candidate": run.candidate})
        for run, spec in zip(found, SeedSweep("s", [template], range(100), 1).specs(), strict=False)
    ]
    played = {run.run: run for run in found}
    outcomes = Outcomes(played, {key: rewarded(run) for key, run in played.items()}, frozenset())
    appends = credits_of(specs, outcomes, {"rw": RewriteState(rewrite="rw")}, "t")
    assert {request.key for request in appends} == {
        f"credit:{run.run}" for run in found if run.evaluation is None and run.candidate
    }
