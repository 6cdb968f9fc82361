"""An estimate that was read because it is above a bound is corrected towards what is true."""

from __future__ import annotations

import random
from statistics import fmean

import pytest

from eventlog.events import Interval, Look, PairedRule
from gate.selection import correct_selection, corrected_difference, corrected_uplift
from projections.candidacy import Candidacy
from projections.evidence import Evidence, Trial, add_trial, rule_of
from tests.unit.test_gate_promote import a_verdict


@pytest.mark.parametrize("bound", [-2.0, 0.0, 2.58])
def test_what_lies_far_above_its_bound_stays(bound: float) -> None:
    assert correct_selection(bound + 9, bound) == bound + 9
    assert correct_selection(bound + 6, bound) == pytest.approx(bound + 6, abs=0.01)


def test_what_barely_passed_its_bound_says_nothing() -> None:
    assert correct_selection(2.6, 2.58) == 0


def test_the_correction_rises_with_the_estimate_and_never_raises_it() -> None:
    found = [correct_selection(2.58 + step / 10, 2.58) for step in range(80)]
    assert found == sorted(found)
    assert all(0 <= each <= 2.58 + step / 10 for step, each in enumerate(found))


def test_the_correction_takes_most_of_the_bias_away() -> None:
    draw, bound, truth = random.Random(1), 2.58, 2.0  # noqa: S311 a simulation
    passed = [z for z in (draw.gauss(truth, 1) for _ in range(20_000)) if z > bound]
    naive, corrected = fmean(passed) - truth, fmean(correct_selection(z, bound) for z in passed) - truth
    assert naive > 1
    assert abs(corrected) < 0.4 * naive


def test_only_a_promotion_at_an_alpha_was_selected() -> None:
    promoted = a_verdict()
    assert corrected_difference(promoted.model_copy(update={"decision": "hold"})) is None
    assert corrected_difference(promoted.model_copy(update={"alpha": 0})) is None


def test_a_promotion_at_an_early_look_is_corrected_by_the_boundary_of_that_look() -> None:
    interval = Interval(low=400_000, high=1_000_000)
    promoted = a_verdict().model_copy(update={"interval": interval, "mean_delta": 700_000, "pairs": 200})
    looks = [
        Look(number=1, of=5, units=8, p_value=1, boundary=boundary, outcome="reject")
        for boundary in (384_896_211, 5_000_000_000)
    ]
    early, last, fixed = (
        corrected_difference(promoted.model_copy(update={"looks": seen})) for seen in ((looks[0],), (looks[1],), ())
    )
    assert early is not None
    assert last is not None
    assert fixed is not None
    assert early < last == fixed <= 700_000


def test_a_promoted_piece_has_a_corrected_uplift_below_its_own() -> None:
    rule = rule_of(PairedRule.current().model_dump(mode="json"))
    found = Evidence()
    for seed in range(5):
        found = add_trial(found, rule, Trial(won=True, controls=3, successes=0, seed=seed))
    corrected = corrected_uplift(Candidacy(rule=rule, status="promoted", treated=found))
    assert corrected is not None
    assert 0 <= corrected < 1_000_000
    assert corrected_uplift(Candidacy(rule=rule, treated=found)) is None
