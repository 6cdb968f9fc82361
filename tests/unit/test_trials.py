from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.rollouts.sweep import SeedSweep
from agents.rollouts.trials import TrialPiece, open_to, treat
from eventlog.events import Spec, Step, Trials
from tests.unit.test_agent_samples import EVERY_GROUP, template, tryables

OTHER = Step(type="navigate", intent="open the cars page", url="/cars")
BOATS, CARS = template("boats"), template("cars", (OTHER,))
TEMPLATES = (BOATS, CARS)
HALVES = Trials(treated_micro=500_000, withheld_micro=500_000)


def sweep(seeds: int, siblings: int = 4) -> tuple[Spec, ...]:
    return SeedSweep("s1", TEMPLATES, range(seeds), siblings).specs()


def tried(specs: tuple[Spec, ...]) -> list[Spec]:
    return [spec for spec in specs if not spec.is_plain]


def test_a_candidate_is_drawn_only_where_it_changes_the_plan() -> None:
    candidates = (*tryables("rw-boats", controls=3), *tryables("rw-cars", controls=3, step=OTHER))
    treated = tried(treat(sweep(9), TEMPLATES, candidates, (), EVERY_GROUP, 7))
    assert Counter((spec.template, spec.candidate) for spec in treated) == {
        ("boats", "rw-boats"): 9,
        ("cars", "rw-cars"): 9,
    }


def test_of_two_promoted_pieces_of_one_step_only_the_one_that_applies_is_withheld() -> None:
    best, second = tryables("rw-a", "rw-b", controls=3)
    withheld = tried(treat(sweep(30), TEMPLATES, (), (best, second), HALVES, 7))
    assert {(spec.template, spec.withheld, spec.candidate) for spec in withheld} == {("boats", "rw-a", None)}


@pytest.mark.parametrize(("siblings", "is_tried"), [(1, False), (2, False), (3, False), (4, True), (6, True)])
def test_a_group_without_enough_controls_tries_nothing(siblings: int, is_tried: bool) -> None:
    given_ = tryables("rw-a", controls=3)
    for candidates, promoted in ((given_, ()), ((), given_)):
        assert bool(tried(treat(sweep(9, siblings), TEMPLATES, candidates, promoted, HALVES, 7))) == is_tried


def test_the_shares_are_those_of_the_groups() -> None:
    specs = treat(
        SeedSweep("s1", (BOATS,), range(1000), 4).specs(),
        (BOATS,),
        tryables("rw-a", controls=3),
        tryables("rw-b", controls=3),
        Trials(treated_micro=300_000, withheld_micro=100_000),
        7,
    )
    treated = sum(spec.candidate is not None for spec in specs)
    withheld = sum(spec.withheld is not None for spec in specs)
    assert 250 <= treated <= 350
    assert 70 <= withheld <= 130


@given(
    st.integers(1, 8),
    st.integers(1, 6),
    st.sets(st.sampled_from("abc")),
    st.sets(st.sampled_from("xyz")),
    st.integers(0, 1_000_000),
    st.integers(0, 99),
)
def test_a_group_tries_at_most_one_piece_in_its_last_sibling_and_the_rest_is_as_it_was(
    seeds: int, siblings: int, candidates: set[str], promoted: set[str], share: int, rng_seed: int
) -> None:
    bare, shares = sweep(seeds, siblings), Trials(treated_micro=share, withheld_micro=1_000_000 - share)
    pieces: list[tuple[TrialPiece, ...]] = [tryables(*sorted(names), controls=3) for names in (candidates, promoted)]
    specs = treat(bare, TEMPLATES, pieces[0], pieces[1], shares, rng_seed)
    assert specs == treat(bare, TEMPLATES, pieces[0][::-1], pieces[1][::-1], shares, rng_seed)
    assert [spec.model_copy(update={"candidate": None, "withheld": None}) for spec in specs] == list(bare)
    for spec in tried(specs):
        assert spec.sibling_index == siblings - 1
        assert (spec.candidate in candidates) != (spec.withheld in promoted)


def test_what_a_group_tries_does_not_hang_on_the_other_groups() -> None:
    given_ = tryables("rw-a", "rw-b", controls=3), tryables("rw-c", controls=3), HALVES, 7
    few, many = treat(sweep(5), TEMPLATES, *given_), treat(sweep(20), TEMPLATES, *given_)
    found = {spec.spec_id: spec for spec in many}
    assert all(found[spec.spec_id] == spec for spec in few)


def by_seed(*names: str, suspect: str = "") -> tuple[TrialPiece, ...]:
    """Pieces of which one trial counts at a seed."""
    given_ = tryables(*names, controls=3)
    return tuple(replace(each, is_by_seed=True, is_suspect=each.piece.piece == suspect) for each in given_)


def test_a_piece_whose_unit_is_the_seed_is_tried_by_one_task_of_each_seed_and_by_all_tasks_in_turn() -> None:
    both = (template("boats"), template("ships"))
    specs = SeedSweep("s1", both, range(40), 4).specs()
    treated = tried(treat(specs, both, by_seed("rw-a"), (), EVERY_GROUP, 7))
    assert sorted(spec.env_seed for spec in treated) == list(range(40))
    assert min(Counter(spec.template for spec in treated).values()) >= 12
    assert len(tried(treat(specs, both, tryables("rw-a", controls=3), (), EVERY_GROUP, 7))) == 80
    opened = open_to(treat(specs, both, by_seed("rw-a"), (), EVERY_GROUP, 7), both, by_seed("rw-a"), 7, "")
    assert {group: found["rewrite"] for group, found in opened.items()} == {
        spec.group_id: ("rw-a",) for spec in treated
    }


def test_a_seed_that_only_one_task_has_is_that_tasks_turn() -> None:
    specs = (*SeedSweep("s1", (BOATS,), range(9), 4).specs(), *SeedSweep("s1", (CARS,), range(9, 18), 4).specs())
    candidates = by_seed("rw-a")
    assert [spec.env_seed for spec in tried(treat(specs, TEMPLATES, candidates, (), EVERY_GROUP, 7))] == list(range(9))


def test_a_piece_whose_evidence_turned_is_withheld_more_often_and_alone() -> None:
    def shares(trials: Trials, suspect: str) -> Counter[str | None]:
        specs = SeedSweep("s1", (BOATS,), range(1_000), 4).specs()
        promoted = by_seed("rw-b", suspect=suspect)
        return Counter(
            spec.withheld or spec.candidate
            for spec in tried(treat(specs, (BOATS,), by_seed("rw-a"), promoted, trials, 7))
        )

    calm, turned = shares(Trials.current(), ""), shares(Trials.current(), "rw-b")
    assert 160 <= calm["rw-b"] <= 240
    assert 550 <= turned["rw-b"] <= 650
    assert calm.total() == turned.total() == 1_000
    assert shares(Trials(), "rw-b") == calm
