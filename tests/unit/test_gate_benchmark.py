from __future__ import annotations

from dataclasses import replace

import pytest

from api.queries.benchmarks import refuse_small_benchmark, shortage
from eventlog.chain import digest
from eventlog.errors import FlywheelError
from eventlog.events import BenchmarkTemplate, Rules
from gate.arms import Result
from gate.benchmark import (
    blocks,
    confirming_specs,
    deal_seeds,
    freeze_benchmark,
    refuse_unfit_benchmark,
    replay_specs,
    specs,
)
from gate.errors import (
    AlphaTooSmall,
    DuplicateTask,
    EmptyBenchmark,
    NotFresh,
    SeedBothWays,
    TooFewRepeats,
    TooFewUnits,
    UnknownTask,
    Unseedable,
)
from projections.environments import EnvironmentState, ProbeFinding
from tests.unit.test_gate_samples import an_arm, benchmark


def template(name: str, task: str | None = None) -> BenchmarkTemplate:
    return BenchmarkTemplate(
        template_id=name, cluster="c", oracle_task_id=task or f"oracle-{name}", instruction="do it", max_steps=40
    )


def test_tasks_are_templates_by_seeds_in_an_order_of_their_own() -> None:
    frozen = freeze_benchmark("b", "shop", [template("t2"), template("t1")], [7], [42, 3], 2)
    assert [(task.template, task.env_seed, task.is_sealed) for task in frozen.tasks] == [
        ("t1", 3, True),
        ("t1", 7, False),
        ("t1", 42, True),
        ("t2", 3, True),
        ("t2", 7, False),
        ("t2", 42, True),
    ]


def test_the_digest_is_of_the_content_and_of_nothing_else() -> None:
    frozen = freeze_benchmark("b", "shop", [template("t1"), template("t2")], [7], [42, 3], 2)
    payload = frozen.model_dump(mode="json", exclude={"type", "benchmark", "successor_of", "digest"})
    assert frozen.digest == digest(payload).hex()
    assert frozen.digest == freeze_benchmark("other", "shop", [template("t2"), template("t1")], [7], [3, 42], 2).digest


@pytest.mark.parametrize(
    ("environment", "templates", "visible", "sealed", "repeats"),
    [
        ("site", ["t1"], [7], [3], 2),
        ("shop", ["t2"], [7], [3], 2),
        ("shop", ["t1"], [8], [3], 2),
        ("shop", ["t1"], [3], [7], 2),
        ("shop", ["t1"], [7], [3], 3),
    ],
)
def test_each_part_of_the_content_changes_the_digest(
    environment: str, templates: list[str], visible: list[int], sealed: list[int], repeats: int
) -> None:
    changed = freeze_benchmark("b", environment, [template(name) for name in templates], visible, sealed, repeats)
    assert changed.digest != freeze_benchmark("b", "shop", [template("t1")], [7], [3], 2).digest


@pytest.mark.parametrize(
    ("templates", "visible", "sealed", "repeats", "error", "words"),
    [
        ([], [7], [3], 1, EmptyBenchmark, "has no template"),
        (["t1"], [7], [], 1, EmptyBenchmark, "has no sealed seed"),
        (["t1"], [7], [3], 0, TooFewRepeats, "asks for 0 repeats"),
        (["t1", "t1"], [7], [3], 1, DuplicateTask, "template 't1'"),
        (["t1"], [7, 7], [3], 1, DuplicateTask, "visible seed 7"),
        (["t1"], [7], [3, 3], 1, DuplicateTask, "sealed seed 3"),
        (["t1"], [7, 3], [3], 1, SeedBothWays, "seed 3"),
    ],
)
def test_what_cannot_be_frozen_is_refused(
    templates: list[str],
    visible: list[int],
    sealed: list[int],
    repeats: int,
    error: type[FlywheelError],
    words: str,
) -> None:
    with pytest.raises(error, match=words):
        freeze_benchmark("b", "shop", [template(name) for name in templates], visible, sealed, repeats)


def test_what_is_spent_is_part_of_the_digest_and_the_name_of_a_predecessor_is_not() -> None:
    same = ("shop", [template("t1")], [7], [3], 2)
    plain = freeze_benchmark("b", *same)
    assert (plain.alpha, plain.challengers) == (50_000, 10)
    assert freeze_benchmark("b", *same, successor_of="a").digest == plain.digest
    assert (
        len(
            {
                plain.digest,
                freeze_benchmark("b", *same, alpha=40_000).digest,
                freeze_benchmark("b", *same, challengers=9).digest,
            }
        )
        == 3
    )


@pytest.mark.parametrize(("alpha", "challengers"), [(9, 10), (50_000, 0)])
def test_alpha_that_leaves_nothing_for_a_challenger_is_refused(alpha: int, challengers: int) -> None:
    with pytest.raises(AlphaTooSmall, match=f"{alpha} millionths of alpha for {challengers} challengers"):
        freeze_benchmark("b", "shop", [template("t1")], [7], [3], 1, alpha=alpha, challengers=challengers)


def test_two_templates_of_one_oracle_task_are_one_instance_twice() -> None:
    with pytest.raises(DuplicateTask, match="oracle task 'same'"):
        freeze_benchmark("b", "shop", [template("t1", "same"), template("t2", "same")], [7], [3], 1)


FROZEN = freeze_benchmark("b", "shop", [template("t1")], [7], [3], 1)


def an_environment(seeding: str | None = "passed", tasks: tuple[str, ...] = ("oracle-t1",)) -> EnvironmentState:
    probes = () if seeding is None else (ProbeFinding(name="two_seeds", outcome=seeding, detail=""),)
    return EnvironmentState(environment="shop", tasks=tasks, probes=probes)


def test_a_benchmark_that_can_be_judged_by_is_not_refused() -> None:
    elsewhere = {("site", "oracle-t1", 3), ("shop", "oracle-t2", 3), ("shop", "oracle-t1", 4)}
    refuse_unfit_benchmark(FROZEN, an_environment(), elsewhere, elsewhere)


def test_a_task_that_the_environment_does_not_grade_is_refused() -> None:
    with pytest.raises(UnknownTask, match=r"'oracle-t1'.* expected oracle-t2"):
        refuse_unfit_benchmark(FROZEN, an_environment(tasks=("oracle-t2",)), (), ())


@pytest.mark.parametrize("seeding", ["skipped", "failed", None])
def test_an_environment_whose_seeds_were_not_seen_to_work_is_refused(seeding: str | None) -> None:
    with pytest.raises(Unseedable, match=f"shop is {seeding or 'not asked'}"):
        refuse_unfit_benchmark(FROZEN, an_environment(seeding), (), ())


@pytest.mark.parametrize("seed", [3, 7])
def test_an_instance_that_was_seen_or_is_anothers_is_named_sealed_or_visible(seed: int) -> None:
    known = {("shop", "oracle-t1", seed)}
    with pytest.raises(NotFresh, match=f"task oracle-t1 of shop at seed {seed}: that instance was played by a run"):
        refuse_unfit_benchmark(FROZEN, an_environment(), known, ())
    with pytest.raises(NotFresh, match=f"task oracle-t1 of shop at seed {seed}: .*belongs to another"):
        refuse_unfit_benchmark(FROZEN, an_environment(), (), known)


def test_confirming_runs_are_fresh_repeats_of_the_instances_asked_for_and_the_arms_alternate() -> None:
    frozen = benchmark(sealed=3, repeats=2, visible=1, templates=("t1", "t2"))
    asked = [("t2", 1, range(2, 5)), ("t1", 1000, range(2, 5))]  # the last one is visible
    planned = confirming_specs(frozen, "ev1", asked)
    assert [(item.spec.template, item.spec.env_seed) for item in planned] == [("t2", 1)] * 6
    assert [item.arm.repeat for item in planned] == [2, 2, 3, 3, 4, 4]
    assert [item.arm.arm for item in planned] == ["champion", "challenger"] * 3
    assert not {item.spec.spec_id for item in planned} & {item.spec.spec_id for item in specs(frozen, "ev1")}


def test_blocks_hold_every_run_once_in_the_order_that_is_looked_at_with_the_visible_ones_first() -> None:
    frozen = benchmark(sealed=3, repeats=2, visible=1, templates=("t1", "t2"))
    ordered = [task for task in reversed(frozen.tasks) if task.is_sealed]
    cut = blocks(frozen, "ev1", ordered, 4)
    assert len(cut) == 2
    assert sorted(item.spec.spec_id for part in cut for item in part) == sorted(
        item.spec.spec_id for item in specs(frozen, "ev1")
    )
    sealed = [
        (item.spec.template, item.spec.env_seed)
        for part in cut
        for item in part
        if item.arm.is_sealed and item.arm.repeat == 0 and item.arm.arm == "champion"
    ]
    assert sealed == [(task.template, task.env_seed) for task in ordered]
    assert {item.arm.is_sealed for item in cut[1]} == {True}


def test_specs_fill_every_place_once_and_the_arms_alternate() -> None:
    frozen = benchmark(sealed=3, repeats=2, visible=1, templates=("t1", "t2"))
    planned = specs(frozen, "ev1")
    assert len(planned) == 2 * 2 * 8
    assert [item.arm.arm for item in planned] == ["champion", "challenger"] * 16
    assert len({item.spec.spec_id for item in planned}) == len(planned)
    first, second = planned[::2], planned[1::2]
    for champion, challenger in zip(first, second, strict=True):
        assert (champion.spec.template, champion.spec.env_seed, champion.arm.repeat) == (
            challenger.spec.template,
            challenger.spec.env_seed,
            challenger.arm.repeat,
        )


def test_specs_are_named_by_evaluation_arm_task_and_repeat() -> None:
    frozen = benchmark(sealed=1, repeats=2, visible=1)
    planned = {item.spec.spec_id: item for item in specs(frozen, "ev1")}
    item = planned["ev1__challenger__t1__seed0__r1"]
    assert item.spec.group_id == "ev1__challenger__t1__seed0"
    assert (item.spec.sweep, item.spec.sibling_index, item.spec.candidate) == ("ev1", 1, None)
    assert (item.arm.evaluation, item.arm.benchmark, item.arm.repeat, item.arm.is_sealed) == ("ev1", "bench", 1, True)
    assert not planned["ev1__champion__t1__seed1000__r0"].arm.is_sealed


def test_dealt_seeds_are_shared_only_where_there_are_fewer_than_templates() -> None:
    assert deal_seeds(["b", "a", "c"], range(7)) == {"a": (0, 1), "b": (2, 3), "c": (4, 5, 6)}
    assert deal_seeds(["b", "a", "c"], [5, 6]) == {"a": (5,), "b": (6,), "c": (5,)}
    frozen = freeze_benchmark("b", "shop", [template("t1"), template("t2")], {}, {"t1": [1, 2], "t2": [3]}, 1)
    assert [(task.template, task.env_seed) for task in frozen.tasks] == [("t1", 1), ("t1", 2), ("t2", 3)]
    with pytest.raises(EmptyBenchmark, match="has no sealed seed"):
        freeze_benchmark("b", "shop", [template("t1"), template("t2")], {}, {"t1": [1]}, 1)


def test_a_lost_run_is_played_again_under_another_name_as_often_as_the_rules_allow() -> None:
    frozen = benchmark(sealed=3)
    planned, rules = specs(frozen, "ev1"), Rules(replays=2)
    champion = an_arm(frozen, "champion", [None, 1_000_000, None])
    places = [("t1", seed, 0) for seed in range(3)]
    champion = replace(champion, lost={places[0]: 1, places[1]: 1, places[2]: 3})
    challenger = an_arm(frozen, "challenger", [None, None, None])
    again = replay_specs(planned, champion, challenger, rules)
    assert [(item.arm.arm, item.spec.spec_id) for item in again] == [
        ("champion", "ev1__champion__t1__seed0__r0__again1")
    ]
    assert again[0].arm == planned[0].arm
    later = replace(champion, lost={places[0]: 2}, visible={places[2]: Result(0, passed=False, cost=1)})
    assert [item.spec.spec_id[-6:] for item in replay_specs(planned, later, challenger, rules)] == ["again2"]
    assert replay_specs(planned, champion, challenger, Rules()) == ()


def test_a_benchmark_whose_templates_share_seeds_is_as_large_as_its_seeds_are_many() -> None:
    shared, rules = benchmark(sealed=25, templates=("a", "b")), Rules.default()
    assert shortage(shared, rules) == (
        "50 sealed instances that share 25 seeds, which are the units, and the rules ask for 40"
    )
    with pytest.raises(
        TooFewUnits, match=r"no alpha was spent\. Freeze a larger\s+successor with `flywheel benchmark ref"
    ):
        refuse_small_benchmark(shared, rules)
    assert shortage(shared, rules.model_copy(update={"unit": "instance"})) is None
    assert shortage(benchmark(sealed=40, templates=("a", "b")), rules) is None
    assert shortage(benchmark(sealed=39), rules) == "39 sealed instances, and the rules ask for 40"
