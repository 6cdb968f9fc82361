"""Failure-biased sweeps: who gets how much, and that no instance is drawn twice."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.rollouts.biased import FailureBiased, allocate, failures_by, sorted_by
from agents.rollouts.errors import BadSweep, BenchmarkInstance
from agents.rollouts.sweep import SeedSweep, extend_group, plan_sweep
from eventlog.events import Bias, Share, Template
from projections.failures import FailureState
from tests.unit.test_agent_samples import EMPTY, template

COUNTS = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(-3, 40), max_size=8)


def of(cluster: str, number: int = 0) -> Template:
    return template(f"{cluster}{number}").model_copy(update={"cluster": cluster})


def draw(counts: dict[str, int], instances: int, *, seeds: list[int] | None = None, rng_seed: int = 7) -> FailureBiased:
    clusters = {name: (of(name, 0), of(name, 1)) for name in "abcdefgh"}
    return FailureBiased("s1", clusters, counts, range(60) if seeds is None else seeds, instances, 2, rng_seed)


@pytest.mark.parametrize(
    ("counts", "budget", "expected"),
    [
        ({"a": 1, "b": 1, "c": 1}, 10, {"a": 3, "b": 3, "c": 4}),
        ({"a": 5, "b": 3, "c": 0}, 10, {"a": 6, "b": 4}),
        ({"a": 1, "b": 1}, 1, {"b": 1}),
        ({"a": 10, "b": 1}, 3, {"a": 3}),
        ({"a": -4, "b": 1}, 5, {"b": 5}),
        ({"a": 0}, 5, {}),
        ({"a": 3}, 0, {}),
        ({}, 5, {}),
    ],
)
def test_a_budget_is_shared_by_largest_remainder(counts: dict[str, int], budget: int, expected: dict[str, int]) -> None:
    assert allocate(budget, counts) == expected


@given(COUNTS, st.integers(0, 200))
def test_a_share_is_its_quota_rounded_one_way_or_the_other_and_nothing_is_left(
    counts: dict[str, int], budget: int
) -> None:
    shares = allocate(budget, counts)
    weights = {name: max(0, found) for name, found in counts.items()}
    total = sum(weights.values())
    assert sum(shares.values()) == (budget if total else 0)
    for name, share in shares.items():
        assert budget * weights[name] // total <= share <= -(-budget * weights[name] // total)


@given(COUNTS, st.integers(0, 100), st.integers(0, 99), st.randoms())
def test_no_instance_comes_twice_and_the_order_of_seeds_does_not_matter(
    counts: dict[str, int], instances: int, rng_seed: int, shuffle: st.DataObject
) -> None:
    generator = draw(counts, instances, rng_seed=rng_seed)
    specs = generator.specs()
    drawn = [(spec.template, spec.env_seed) for spec in specs if spec.sibling_index == 0]
    assert len(drawn) == len(set(drawn)) == sum(generator.allocation().values())
    assert len({spec.spec_id for spec in specs}) == len(specs) == 2 * len(drawn)
    assert specs == draw(counts, instances, seeds=list(reversed(range(60))), rng_seed=rng_seed).specs()


def test_another_seed_of_the_draw_takes_other_instances() -> None:
    one, two = (draw({"a": 1}, 20, rng_seed=rng_seed).specs() for rng_seed in (7, 8))
    assert {spec.env_seed for spec in one} != {spec.env_seed for spec in two}


def test_the_templates_of_a_cluster_take_turns() -> None:
    specs = draw({"a": 1}, 5).specs()
    assert [spec.template for spec in specs if spec.sibling_index == 0] == ["a0", "a1", "a0", "a1", "a0"]


def test_a_share_beyond_the_instances_there_are_is_refused() -> None:
    with pytest.raises(BadSweep, match=r"2 templates and 3 seeds for 7 instances of a"):
        draw({"a": 1}, 7, seeds=[1, 2, 3]).specs()


def test_a_sweep_of_ours_has_no_name_of_runs_from_outside() -> None:
    with pytest.raises(BadSweep, match="a name of runs from outside"):
        SeedSweep("ext-s1", (of("a"),), [1], 1).specs()


def test_clusters_without_a_template_get_nothing() -> None:
    assert draw({"zzz": 90, "a": 1}, 4).allocation() == {"a": 4}


def test_the_sweep_says_why_it_draws_what_it_draws_and_holds_only_what_is_drawn() -> None:
    generator = draw({"a": 3, "b": 1}, 4)
    event = plan_sweep(generator, "site", EMPTY, rng_seed=7, bias=generator.bias(99))
    assert event.bias is not None
    assert event.bias.upto == 99
    assert event.bias.shares == (
        Share(cluster="a", failures=3, instances=3),
        Share(cluster="b", failures=1, instances=1),
    )
    assert [each.template_id for each in event.templates] == ["a0", "a1", "b0"]


@given(COUNTS, st.integers(0, 60))
def test_with_a_floor_each_cluster_is_drawn_as_far_as_the_budget_goes(counts: dict[str, int], budget: int) -> None:
    found = replace(draw(counts, budget), floor=1).allocation()
    assert sum(found.values()) in {0, budget}
    if found and budget >= len("abcdefgh"):
        assert set(found) == set("abcdefgh")


def test_after_an_outage_a_task_without_a_graded_failure_is_still_drawn() -> None:
    generator = replace(draw({"a": 59}, 16), floor=1)
    assert generator.allocation() == {"a": 9, **dict.fromkeys("bcdefgh", 1)}
    assert Share(cluster="b", failures=0, instances=1) in generator.bias(1).shares
    assert {spec.template[0] for spec in generator.specs()} == set("abcdefgh")


def test_a_cluster_that_the_budget_did_not_reach_keeps_its_share_of_nothing() -> None:
    bias = replace(draw({"a": 10, "b": 1, "zzz": 5}, 3), by="template", of="s0").bias(99)
    assert [(share.cluster, share.failures, share.instances) for share in bias.shares] == [("a", 10, 3), ("b", 1, 0)]
    assert (bias.by, bias.of) == ("template", "s0")
    assert set(Bias(upto=1, shares=()).model_dump()) == {"upto", "shares"}


def test_an_instance_of_a_benchmark_is_refused() -> None:
    generator = draw({"a": 1}, 1, seeds=[5])
    with pytest.raises(BenchmarkInstance, match="seed 5"):
        plan_sweep(generator, "site", EMPTY, rng_seed=7, frozen={("site", generator.templates[0].oracle_task_id, 5)})


def failed(run: str, cluster: str, **changes: object) -> FailureState:
    fields = {"run": run, "template": f"{cluster}0", "cluster": cluster, "environment": "site", "passed": False}
    return FailureState(**{**fields, **changes})  # type: ignore[arg-type]


def test_failures_count_for_their_cluster_or_their_task_and_those_of_benchmarks_and_from_outside_for_none() -> None:
    states = [
        failed("r1", "a"),
        failed("r2", "a", template="a1"),
        failed("r3", "b"),
        failed("r4", "b", passed=True),
        failed("r5", "b", passed=None),
        failed("r6", "b", is_benchmark=True),
        failed("r7", "b", environment="elsewhere"),
        failed("ext-r8", "b"),
    ]
    assert failures_by(states, "cluster", "site") == {"a": 2, "b": 1}
    assert failures_by(states, "template", "site") == {"a0": 1, "a1": 1, "b0": 1}


def test_templates_are_sorted_by_cluster_or_by_themselves() -> None:
    found = [of("b"), of("a", 1), of("a", 0)]
    assert sorted_by(found, "cluster") == {"a": (found[2], found[1]), "b": (found[0],)}
    assert sorted_by(found, "template") == {"a0": (found[2],), "a1": (found[1],), "b0": (found[0],)}


def test_temperatures_go_round_the_siblings_and_a_session_is_of_the_whole_sweep() -> None:
    specs = SeedSweep("s1", (of("a"),), [1], 3, (0, 700_000), "home").specs()
    assert [spec.temperature_micro for spec in specs] == [0, 700_000, 0]
    assert {spec.state_key for spec in specs} == {"home"}
    with pytest.raises(BadSweep, match="temperatures"):
        SeedSweep("s1", (of("a"),), [1], 1, (2_000_001,)).specs()


def test_further_siblings_go_on_where_the_group_ended_at_the_same_temperatures() -> None:
    known = SeedSweep("s1", (of("a"),), [1], 2, (0, 700_000), "home").specs()
    more = extend_group("s1", (of("a"),), known, 4)
    assert [(spec.spec_id, spec.temperature_micro) for spec in more] == [
        ("s1__a0__seed1__s2", 0),
        ("s1__a0__seed1__s3", 700_000),
    ]
    assert {(spec.group_id, spec.state_key, spec.candidate) for spec in more} == {(known[0].group_id, "home", None)}
    with pytest.raises(BadSweep, match="2 siblings"):
        extend_group("s1", (of("a"),), known, 2)
