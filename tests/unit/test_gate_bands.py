"""While a benchmark can judge, its sealed part is told in bands; a look at the figures is recorded and costs alpha."""

from __future__ import annotations

import pytest

from eventlog.events import SealedInspected
from eventlog.store import EventStore
from gate.alpha import next_alpha
from gate.bands import coarse_reasons, difference_band, explain_bands, hide_figures, success_band, tells_figures
from gate.errors import BenchmarkExhausted
from gate.inspections import pay_for_inspection
from projections.alpha import AlphaState
from tests.unit.test_gate_promote import OLD, a_store, a_verdict, ledger, opened


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
    why = ("p 0.2 is above the alpha 0.005 of this challenger", "mean difference 0.01 is below 0.02", "something new")
    hold = a_verdict("hold").model_copy(update={"reasons": why})
    told = coarse_reasons(hold)
    assert told == (
        "the test is not met",
        "the margin is not met",
        "a regression, or another check is not met",
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
