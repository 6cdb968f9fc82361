"""While a benchmark can judge, its sealed part is told in bands; a look at the figures is recorded and costs alpha."""

from __future__ import annotations

import pytest

from eventlog.events import Confirmation, EventsDisowned, FamilyCheck, Rules, SealedInspected
from eventlog.store import EventStore
from gate.alpha import next_alpha
from gate.bands import coarse_reasons, difference_band, explain_bands, hide_figures, success_band
from gate.checks import PromotionCheck, check_cost, check_families, check_minimum, check_regressions
from gate.errors import BenchmarkExhausted
from gate.inspections import pay_for_inspection
from gate.plot_bands import plot_bands
from gate.sealed_figures import tells_figures
from projections.alpha import AlphaState
from tests.unit.test_gate_promote import OLD, a_store, a_verdict, add, ledger, opened


@pytest.mark.parametrize(
    ("delta", "band"),
    [
        (100_000, "about equal"),
        (-100_000, "about equal"),
        (100_001, "better"),
        (-100_001, "worse"),
        (None, "not computed"),
    ],
)
def test_a_mean_difference_is_told_in_three_bands(delta: int | None, band: str) -> None:
    assert difference_band(delta) == band


def test_success_is_told_in_fifths() -> None:
    arm = a_verdict().champion
    told = [success_band(arm.model_copy(update={"passed": passed, "runs": 10})) for passed in (0, 1, 2, 9, 10)]
    assert told == ["0 to 0.2", "0 to 0.2", "0.2 to 0.4", "0.8 to 1", "0.8 to 1"]


@pytest.mark.parametrize("decision", ["promote", "hold", "void"])
def test_no_figure_of_the_sealed_part_is_told(decision: str) -> None:
    verdict = a_verdict(decision)
    moved = verdict.model_copy(
        update={
            "p_value": 123_457,
            "mean_delta": None if verdict.mean_delta is None else verdict.mean_delta + 7,
            "wins": 4_711,
            "power": 4_712,
            "screened": ("t1__seed4713",),
            "regressions": ("t1__seed4713",),
        }
    )
    assert explain_bands(moved) == explain_bands(verdict)
    hidden, other = (hide_figures(each.model_dump(mode="json"), each) for each in (moved, verdict))
    assert hidden == other
    assert set(hidden) == {*verdict.model_dump(), "bands"}
    assert (hidden["decision"], hidden["mean_delta"], hidden["screened"]) == (decision, None, [])
    assert hidden["champion"]["passed"] is None
    assert hidden["champion"]["artifact"] == verdict.champion.artifact.model_dump(mode="json")


def test_the_reasons_of_a_hold_name_the_checks_without_their_figures() -> None:
    family = FamilyCheck(
        template="p1",
        instances=3,
        champion_runs=9,
        challenger_runs=9,
        champion_score=9,
        challenger_score=1,
        p_value=1,
        is_worse=True,
    )
    confirmed = Confirmation(
        instance="t1__seed1",
        champion_runs=12,
        champion_passed=12,
        challenger_runs=12,
        challenger_passed=1,
        p_value=1,
        is_regression=True,
    )
    arms, rules = a_verdict(), Rules.default()
    dear = arms.challenger.model_copy(update={"compared_cost": 9})
    checks = (
        PromotionCheck(is_met=False, words="p 0.2 is above the alpha 0.005 of this challenger"),
        check_minimum("mean difference", 10_000, 20_000),
        check_cost(arms.champion.model_copy(update={"compared_cost": 1}), dear, rules, 3),
        check_cost(arms.champion, arms.challenger.model_copy(update={"cost": None}), rules, 0),
        check_regressions(2, [confirmed], rules),
        *check_families([family]),
        PromotionCheck(is_met=False, words="something new"),
    )
    assert not any(each.is_met for each in checks)
    hold = a_verdict("hold").model_copy(update={"reasons": tuple(each.words for each in checks)})
    told = coarse_reasons(hold)
    assert told == (
        "the test is not met",
        "the margin is not met",
        "the cost is not met",
        "no confirmed regression is not met",
        "no template that lost is not met",
        "another check is not met",
    )
    void = a_verdict("void")
    assert coarse_reasons(void) == void.reasons


def inspected(store: EventStore, evaluation: str) -> int:
    return pay_for_inspection(store, "bench", evaluation, "operator")


def test_a_look_is_recorded_costs_the_share_of_a_challenger_and_is_paid_once() -> None:
    store = a_store(OLD)
    opened(store, "ev0")
    assert not tells_figures(ledger(store), "ev0", is_succeeded=False, is_playing=False)
    assert inspected(store, "ev0") == 5_000
    head, after = store.head(), ledger(store)
    assert inspected(store, "ev0") == 0
    assert store.head() == head
    (event,) = [item.event for item in store.read(types=["SealedInspected"])]
    assert event == SealedInspected(benchmark="bench", evaluation="ev0", alpha=5_000)
    assert (after.challenges, after.challengers_left, after.spent_total) == (1, 8, 10_000)
    assert tells_figures(after, "ev0", is_succeeded=False, is_playing=False)
    opened(store, "ev1")
    assert not tells_figures(ledger(store), "ev1", is_succeeded=False, is_playing=False)
    assert (next_alpha(ledger(store)).challenge, next_alpha(ledger(store)).spent) == (3, 20_000)


def test_a_look_that_was_disowned_is_paid_again() -> None:
    store = a_store(OLD)
    opened(store, "ev0")
    assert inspected(store, "ev0") == 5_000
    (first,) = store.read(types=["SealedInspected"])
    add(store, "log", EventsDisowned(positions=(first.position,), reason="forged"))
    assert not tells_figures(ledger(store), "ev0", is_succeeded=False, is_playing=False)
    assert inspected(store, "ev0") == 5_000
    assert len(list(store.read(types=["SealedInspected"]))) == 2
    assert tells_figures(ledger(store), "ev0", is_succeeded=False, is_playing=False)


def test_a_picture_in_bands_is_the_same_for_all_figures_within_them() -> None:
    verdict = a_verdict("hold")
    moved = verdict.model_copy(update={"mean_delta": 3, "p_value": 4_711, "wins": 9, "missing": verdict.missing})
    near = verdict.model_copy(update={"mean_delta": 5, "p_value": 1, "wins": 2})
    better = verdict.model_copy(update={"mean_delta": 100_001})
    drawn = [plot_bands("ev0", each, "svg") for each in (near, moved, better)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert plot_bands("ev0", a_verdict("void"), "png").startswith(b"\x89PNG")


def test_looks_use_up_a_benchmark_and_then_its_figures_are_told() -> None:
    store = a_store(OLD)
    for number in range(5):
        opened(store, f"ev{number}")
        inspected(store, f"ev{number}")
    assert ledger(store).is_exhausted
    assert ledger(store).spent_total == ledger(store).alpha
    with pytest.raises(BenchmarkExhausted, match="has judged 10 challengers"):
        opened(store, "ev9")
    assert tells_figures(ledger(store), "any", is_succeeded=False, is_playing=False)
    assert inspected(store, "another") == 0


def test_figures_are_told_after_a_benchmark_has_a_successor_and_of_evaluations_from_before_the_ledger() -> None:
    store = a_store(OLD)
    opened(store, "ev0")
    assert tells_figures(ledger(store), "ev0", is_succeeded=True, is_playing=False)
    assert tells_figures(AlphaState(alpha=50_000, challengers=10), "eval-1", is_succeeded=False, is_playing=False)
    assert tells_figures(None, "eval-1", is_succeeded=False, is_playing=False)
