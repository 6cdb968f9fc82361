"""Which tasks may be proposed for a benchmark, and which instances nobody has seen."""

from __future__ import annotations

from eventlog.events import SweepPlanned
from gate.candidates import graded_tasks
from projections.benchmarks import seen_instances
from projections.runs import RunState
from tests.unit.test_agent_samples import EMPTY, spec, template


def run(name: str, task: str = "t1", seed: int = 1, evaluation: str | None = None) -> RunState:
    return RunState(run=name, template=task, env_seed=seed, environment="shop", evaluation=evaluation)


ORACLES = {"t1": {"one"}, "t2": {"two"}}


def test_tasks_are_counted_by_graded_runs_that_may_be_learned_from() -> None:
    runs = [run("a"), run("b"), run("c", "t2"), run("d", "t2"), run("e", evaluation="ev1"), run("f", seed=9)]
    graded = {"a", "b", "c", "e", "f"}
    assert graded_tasks(runs, graded, {("shop", "one", 9)}, ORACLES, {"c"}) == {"one": 2}
    assert graded_tasks([run("x", "unknown")], {"x"}, set(), ORACLES, set()) == {}


def test_an_instance_is_seen_where_it_was_planned_or_played_outside_evaluations() -> None:
    sweep = SweepPlanned(
        sweep="s1", environment="shop", templates=(template(),), specs=(spec("r0"),), artifact=EMPTY, rng_seed=7
    )
    runs = [run("outside", "t1", 5), run("stranger", "t9", 6), run("arm", "t1", 7, evaluation="ev1")]
    assert seen_instances([sweep], runs, ORACLES) == {
        ("shop", template().oracle_task_id, sweep.specs[0].env_seed),
        ("shop", "one", 5),
        ("shop", "t9", 6),
    }
