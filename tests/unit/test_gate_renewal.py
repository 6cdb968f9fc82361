"""Benchmarks that cannot promote any more, and the fresh seeds of their successors."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from eventlog.events import Artifact, BenchmarkFrozen, BenchmarkTemplate, Rules
from gate.alpha import Alpha
from gate.benchmark import freeze_benchmark
from gate.errors import AlreadySucceeded, NoFreshSeeds
from gate.judge import judge
from gate.renewal import (
    SEALED_SEEDS,
    SeedAmounts,
    describe_ledger,
    draw_fresh_seeds,
    is_saturated,
    missing_tasks,
    newest_successor,
    successor,
    successor_name,
)
from projections.alpha import AlphaState, Spending
from projections.benchmarks import BenchmarkState, instances_of
from projections.verdicts import VerdictState
from tests.unit.test_gate_samples import an_arm, artifact, benchmark

OLD, NEW = artifact(0), artifact(9)
ONE = 1_000_000


def template(name: str) -> BenchmarkTemplate:
    return BenchmarkTemplate(template_id=name, cluster="c", oracle_task_id=name, instruction="do it", max_steps=40)


FROZEN = freeze_benchmark(
    "shop-1", "shop", [template("t1"), template("t2")], [9_000], [10_000, 10_001], 3, alpha=40_000, challengers=8
)


def states(*frozen: BenchmarkFrozen) -> dict[str, BenchmarkState]:
    return {each.benchmark: BenchmarkState(benchmark=each.benchmark, successor_of=each.successor_of) for each in frozen}


def verdict_of(
    champion: Sequence[int | None], challenger: Sequence[int | None], since: int = 1, frozen: str = "bench"
) -> VerdictState:
    played = benchmark(sealed=len(champion))
    arms = an_arm(played, "champion", champion, pinned=OLD), an_arm(played, "challenger", challenger, pinned=NEW)
    verdict = judge(*arms, played, Rules(test="bootstrap", min_pairs=1), Alpha(1, 5_000, 5_000))
    return VerdictState(
        benchmark=frozen, opened_since=since, decision=verdict.decision, verdict=verdict.model_dump(mode="json")
    )


@pytest.mark.parametrize(
    ("champion", "challenger", "present", "expected"),
    [
        ([ONE] * 4, [0] * 4, OLD, True),
        ([ONE, ONE, ONE, 0], [0] * 4, OLD, False),
        ([0] * 4, [ONE] * 4, NEW, True),
        ([0] * 4, [ONE] * 4, OLD, False),
        ([ONE] * 4, [ONE] * 4, artifact(12), False),
        ([None] * 4, [None] * 4, OLD, False),
    ],
)
def test_a_benchmark_is_saturated_where_the_present_champion_passed_all_of_it(
    champion: list[int | None], challenger: list[int | None], present: Artifact, expected: bool
) -> None:
    assert is_saturated("bench", [verdict_of(champion, challenger)], present) is expected


def test_only_the_last_evaluation_of_the_benchmark_says_so() -> None:
    full, short = [ONE] * 4, [ONE, ONE, ONE, 0]
    assert not is_saturated("bench", [verdict_of(full, full, 1), verdict_of(short, full, 2)], OLD)
    assert is_saturated("bench", [verdict_of(full, full, 2), verdict_of(short, full, 1)], OLD)
    assert is_saturated("bench", [verdict_of(full, full, 1), verdict_of(short, full, 2, frozen="other")], OLD)
    assert not is_saturated("bench", [verdict_of(full, full, 1), VerdictState(benchmark="bench", opened_since=2)], None)
    assert not is_saturated("bench", [], OLD)


def test_how_a_benchmark_stands_is_said_in_words() -> None:
    spending = tuple(Spending(evaluation=f"e{n}", challenge=n, alpha=1, since=n) for n in (1, 2))
    ledger = AlphaState(benchmark="bench", alpha=3, challengers=3, spendings=spending)
    assert describe_ledger(ledger, saturated=False) == "1 challengers left"
    assert describe_ledger(ledger, saturated=True) == "saturated"
    full = AlphaState(benchmark="bench", alpha=2, challengers=2, spendings=spending)
    assert describe_ledger(full, saturated=True) == describe_ledger(None, saturated=False) == "exhausted"


def test_a_successor_has_the_same_tasks_and_alpha_at_seeds_that_nobody_has_seen() -> None:
    taken = {("shop", "t2", seed) for seed in range(10_000, 400_000)} | {*instances_of(FROZEN)}
    fresh = successor(FROZEN, states(FROZEN), taken, rng_seed=7)
    assert (fresh.benchmark, fresh.successor_of, fresh.templates) == ("shop-2", "shop-1", FROZEN.templates)
    assert (fresh.alpha, fresh.challengers, fresh.repeats) == (40_000, 8, 3)
    assert [task.is_sealed for task in fresh.tasks].count(True) == 4
    assert not {*instances_of(fresh)} & taken
    assert fresh == successor(FROZEN, states(FROZEN), taken, rng_seed=7)
    assert fresh.digest != successor(FROZEN, states(FROZEN), taken, rng_seed=8).digest
    larger = successor(FROZEN, states(FROZEN), taken, rng_seed=7, amounts=SeedAmounts(2, 30, 1))
    assert (len(larger.tasks), larger.repeats) == (64, 1)


def test_a_successor_may_hold_other_tasks_in_whose_place_it_stands() -> None:
    others = [template("t1"), template("t9")]
    fresh = successor(FROZEN, states(FROZEN), (), rng_seed=7, templates=others)
    assert (fresh.benchmark, fresh.successor_of, fresh.templates) == ("shop-2", "shop-1", tuple(others))
    assert (fresh.alpha, fresh.challengers) == (FROZEN.alpha, FROZEN.challengers)
    assert newest_successor(states(FROZEN, fresh), "shop-1") == "shop-2"
    tasks = [each.oracle_task_id for each in others]
    assert (missing_tasks(FROZEN, tasks), missing_tasks(fresh, tasks), missing_tasks(fresh, ())) == (
        (tasks[1],),
        (),
        (),
    )


def test_the_draw_is_the_same_on_every_python() -> None:
    assert draw_fresh_seeds("b", "shop", [template("t1")], SeedAmounts(2, 3, 1), (), 7) == (
        {"t1": (9428, 9570)},
        {"t1": (556396, 65829, 323566)},
    )


def test_a_benchmark_is_succeeded_once_and_its_newest_successor_stands_in_its_place() -> None:
    second = successor(FROZEN, states(FROZEN), (), rng_seed=7)
    third = successor(second, states(FROZEN, second), (), rng_seed=7)
    known = states(FROZEN, second, third)
    assert [newest_successor(known, name) for name in ("shop-1", "shop-2", "shop-3", "other")] == [
        *["shop-3"] * 3,
        "other",
    ]
    with pytest.raises(AlreadySucceeded, match="shop-1 was succeeded by shop-3"):
        successor(FROZEN, known, (), rng_seed=7)


@pytest.mark.parametrize(
    ("name", "known", "expected"),
    [("shop-1", ["shop-1"], "shop-2"), ("shop-1", ["shop-2"], "shop-3"), ("a", [], "a-2")],
)
def test_a_successors_name_is_the_next_number_that_is_free(name: str, known: list[str], expected: str) -> None:
    assert successor_name(known, name) == expected


def test_too_few_fresh_seeds_are_refused() -> None:
    taken = {("shop", "t1", seed) for seed in SEALED_SEEDS[:-2]}
    assert draw_fresh_seeds("b", "shop", [template("t1")], SeedAmounts(0, 2, 1), taken, 7)[1] == {
        "t1": (999_999, 999_998)
    }
    with pytest.raises(NoFreshSeeds, match="expected 3 of 10000 to 999999"):
        draw_fresh_seeds("b", "shop", [template("t1")], SeedAmounts(0, 3, 1), taken, 7)


def test_no_two_templates_of_a_drawn_benchmark_share_a_seed() -> None:
    drawn = draw_fresh_seeds("b", "shop", [template("t1"), template("t2")], SeedAmounts(2, 30, 1), (), 7)
    for dealt, each in zip(drawn, (2, 30), strict=True):
        assert [len(seeds) for seeds in dealt.values()] == [each, each]
        assert len({seed for seeds in dealt.values() for seed in seeds}) == 2 * each
