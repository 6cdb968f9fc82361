from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.rollouts import trials
from agents.rollouts.errors import BadSweep, BenchmarkInstance
from agents.rollouts.sweep import SeedSweep, plan_sweep
from api.course import Course
from api.sweeps.seeds import fresh_seeds
from eventlog.events import Spec, SweepPlanned
from projections.sweeps import SWEEPS, SweepsState
from tests.unit.test_agent_samples import EMPTY, EVERY_GROUP, template, tryables
from tests.unit.test_folds_samples import states

TEMPLATES = (template("t1"), template("t2"))
CANDIDATES = ["rw-a", "rw-b", "rw-c"]


def treat(specs: Sequence[Spec], names: Collection[str], rng_seed: int) -> tuple[Spec, ...]:
    """Every group treated, with pieces that fit every plan and ask for no controls."""
    return trials.treat(specs, TEMPLATES, tryables(*names), (), EVERY_GROUP, rng_seed)


def sweep(seeds: int, siblings: int = 2) -> tuple[Spec, ...]:
    return SeedSweep("s1", TEMPLATES, range(seeds), siblings).specs()


def test_specs_go_template_by_template_seed_by_seed_sibling_by_sibling() -> None:
    specs = SeedSweep("s1", TEMPLATES, [5, 2], 2).specs()
    assert [spec.spec_id for spec in specs] == [
        "s1__t1__seed5__s0",
        "s1__t1__seed5__s1",
        "s1__t1__seed2__s0",
        "s1__t1__seed2__s1",
        "s1__t2__seed5__s0",
        "s1__t2__seed5__s1",
        "s1__t2__seed2__s0",
        "s1__t2__seed2__s1",
    ]
    first = specs[1]
    assert (first.group_id, first.sibling_index, first.env_seed, first.sweep) == ("s1__t1__seed5", 1, 5, "s1")
    assert all(spec.candidate is None for spec in specs)


def test_another_sweep_of_the_same_seeds_has_other_runs_and_other_groups() -> None:
    one, two = (SeedSweep(name, TEMPLATES, [1], 2).specs() for name in ("s1", "s2"))
    assert not {spec.spec_id for spec in one} & {spec.spec_id for spec in two}
    assert not {spec.group_id for spec in one} & {spec.group_id for spec in two}


@pytest.mark.parametrize(
    ("generator", "what"),
    [
        (SeedSweep("s1", (), [1]), "no templates"),
        (SeedSweep("s1", TEMPLATES, []), "no seeds"),
        (SeedSweep("s1", (*TEMPLATES, template("t1")), [1]), "templates twice"),
        (SeedSweep("s1", TEMPLATES, [1, 2, 1]), "seeds twice"),
        (SeedSweep("s1", TEMPLATES, [1], 0), "0 siblings"),
    ],
)
def test_a_sweep_that_repeats_itself_or_is_empty_is_refused(generator: SeedSweep, what: str) -> None:
    with pytest.raises(BadSweep, match=what):
        generator.specs()


@given(st.integers(1, 12), st.integers(2, 4), st.sets(st.sampled_from(CANDIDATES), min_size=1), st.integers(0, 99))
def test_of_each_group_exactly_the_last_sibling_is_treated_with_exactly_one_candidate(
    seeds: int, siblings: int, candidates: set[str], rng_seed: int
) -> None:
    specs = treat(sweep(seeds, siblings), candidates, rng_seed)
    treated = [spec for spec in specs if spec.candidate is not None]
    assert [spec.sibling_index for spec in treated] == [siblings - 1] * len({spec.group_id for spec in specs})
    assert {spec.candidate for spec in treated} <= candidates
    assert [spec.model_copy(update={"candidate": None}) for spec in specs] == list(sweep(seeds, siblings))


def test_treatment_is_a_function_of_seed_and_group() -> None:
    specs = sweep(20)
    once = treat(specs, CANDIDATES, 7)
    assert once == treat(specs, list(reversed(CANDIDATES)), 7) == treat(specs, set(CANDIDATES), 7)
    assert once != treat(specs, CANDIDATES, 8)
    drawn = {spec.spec_id: spec.candidate for spec in treat(sweep(30), CANDIDATES, 7)}
    assert all(drawn[spec.spec_id] == spec.candidate for spec in once)


def test_over_many_groups_every_candidate_is_drawn_about_as_often() -> None:
    drawn = Counter(spec.candidate for spec in treat(sweep(150), CANDIDATES, 7) if spec.candidate)
    assert set(drawn) == set(CANDIDATES)
    assert all(60 <= count <= 140 for count in drawn.values()), drawn


def test_without_candidates_or_siblings_nobody_is_treated() -> None:
    assert treat(sweep(5), (), 7) == sweep(5)
    assert treat(sweep(5, siblings=1), CANDIDATES, 7) == sweep(5, siblings=1)


def test_a_planned_sweep_pins_its_artifact_templates_and_draw() -> None:
    generator, tried = SeedSweep("s1", TEMPLATES, [1, 2], 2), tryables(*CANDIDATES)
    event = plan_sweep(generator, "shop", EMPTY, rng_seed=7, candidates=tried, trials=EVERY_GROUP)
    assert (event.sweep, event.environment, event.artifact, event.rng_seed) == ("s1", "shop", EMPTY, 7)
    assert event.templates == TEMPLATES
    assert event.specs == treat(SeedSweep("s1", TEMPLATES, [1, 2], 2).specs(), CANDIDATES, 7)


def test_a_sweep_for_plans_is_written_as_before_there_were_other_executors() -> None:
    generator = SeedSweep("s1", TEMPLATES, [1])
    event = plan_sweep(generator, "shop", EMPTY, rng_seed=7)
    other = plan_sweep(generator, "shop", EMPTY, rng_seed=7, executor="policy", model="m1")
    assert set(other.model_dump()) - set(event.model_dump()) == {"executor", "model"}
    assert SweepPlanned.model_validate(other.model_dump()) == other


@pytest.mark.parametrize("name", ["", "a__b", "ext-1", "a/b", "a b", "a\n", "größe"])
def test_a_name_that_runs_could_not_be_told_by_is_refused(name: str) -> None:
    with pytest.raises(BadSweep, match=r"no `__`"):
        plan_sweep(SeedSweep(name, TEMPLATES, [1]), "shop", EMPTY, rng_seed=7)
    assert plan_sweep(SeedSweep("My_shop-1.b", TEMPLATES, [1]), "shop", EMPTY, rng_seed=7).sweep == "My_shop-1.b"


def test_an_instance_of_a_benchmark_is_refused_whatever_the_template_is_called() -> None:
    renamed = template("t1").model_copy(update={"template_id": "another-name"})
    with pytest.raises(BenchmarkInstance, match="oracle-t1 of shop at seed 2"):
        plan_sweep(SeedSweep("s1", [renamed], [1, 2]), "shop", EMPTY, rng_seed=7, frozen={("shop", "oracle-t1", 2)})


@pytest.mark.parametrize("other", [("site", "oracle-t1", 2), ("shop", "oracle-t9", 2), ("shop", "oracle-t1", 3)])
def test_another_environment_task_or_seed_is_no_instance_of_it(other: tuple[str, str, int]) -> None:
    event = plan_sweep(SeedSweep("s1", [template("t1")], [1, 2]), "shop", EMPTY, rng_seed=7, frozen={other})
    assert len(event.specs) == 2


def used_by(*sweeps: SweepPlanned) -> SweepsState:
    return states(SWEEPS, *sweeps).get("shop", SweepsState())


@given(st.lists(st.integers(1, 60), max_size=8))
def test_no_two_rounds_share_a_seed_however_large_each_of_them_is(sizes: list[int]) -> None:
    sweeps: list[SweepPlanned] = []
    for number, size in enumerate(sizes):
        seeds = fresh_seeds(used_by(*sweeps), Course(seeds_per_round=size))
        sweeps.append(plan_sweep(SeedSweep(f"s{number}", [template()], seeds), "shop", EMPTY, rng_seed=7))
    taken = [spec.env_seed for event in sweeps for spec in event.specs]
    assert taken == list(range(sum(sizes)))
    assert not set(taken) & {*Course().visible_seeds, *Course().sealed_seeds}


def test_seeds_that_a_benchmark_holds_are_passed_over() -> None:
    course = Course(seeds_per_round=3, training_seeds=6)
    first = fresh_seeds(used_by(), course, held={0, 2, 9_000})
    assert first == (1, 3, 4)
    event = plan_sweep(SeedSweep("s", [template()], first), "shop", EMPTY, rng_seed=7)
    assert fresh_seeds(used_by(event), course, held={0, 2}) == (5,)


def test_training_seeds_end_before_the_benchmarks_begin_and_none_is_left_out() -> None:
    course = Course()
    event = plan_sweep(SeedSweep("s", [template()], [course.training_seeds - 5]), "shop", EMPTY, rng_seed=7)
    left = fresh_seeds(used_by(event), course, course.training_seeds)
    assert set(left) == set(range(course.training_seeds)) - {course.training_seeds - 5}
    last = plan_sweep(SeedSweep("t", [template()], left), "shop", EMPTY, rng_seed=7)
    assert not fresh_seeds(used_by(event, last), course)
    assert min(course.visible_seeds + course.sealed_seeds) >= course.training_seeds


def test_a_spec_without_a_state_key_and_a_temperature_is_written_as_before_there_were_any() -> None:
    spec = sweep(1)[0]
    assert set(spec.model_dump()) == {
        "spec_id",
        "template",
        "env_seed",
        "group_id",
        "sibling_index",
        "sweep",
        "candidate",
    }
    named = spec.model_copy(update={"state_key": "alex", "temperature_micro": 700_000})
    assert Spec.model_validate(named.model_dump()) == named
    assert set(named.model_dump()) - set(spec.model_dump()) == {"state_key", "temperature_micro"}
