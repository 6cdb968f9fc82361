"""While a benchmark can judge, of its sealed part the decision is told; a look at more is recorded and costs alpha."""

from __future__ import annotations

import pytest

from eventlog.events import EventsDisowned, Look, SealedInspected, Verdict, Visible
from eventlog.store import EventStore
from gate.alpha import next_alpha
from gate.decision import explain_decision, hide_figures, tell_reasons
from gate.errors import BenchmarkExhausted
from gate.inspections import pay_for_inspection
from gate.sealed_figures import tells_figures
from projections.alpha import AlphaState
from tests.unit.test_gate_promote import OLD, a_store, a_verdict, add, ledger, opened

LOOK = Look(number=1, of=5, units=20, p_value=1, boundary=2, outcome="reject")


def unlike(verdict: Verdict) -> Verdict:
    """The same decision on another sealed part: every figure, check and look that could differ does."""
    arms = {
        name: arm.model_copy(
            update={"runs": 911, "passed": 417, "mean_score": 457_001, "cost": 88, "compared_cost": 87}
        )
        for name, arm in (("champion", verdict.champion), ("challenger", verdict.challenger))
    }
    figures = {
        "reasons": verdict.reasons if verdict.decision == "void" else ("cost $0.021 is more than 1.5 times $0.0042",),
        "p_value": 123_457,
        "mean_delta": 765_432,
        "draws": 40_001,
        "looked_at": 19,
        "wins": 4_711,
        "power": 4_712,
        "screened": ("t1__seed4713",),
        "regressions": ("t1__seed4713",),
        "units": 23,
        "lost": (1, 2),
        "looks": (LOOK,),
        "interrupted": (3, 4),
    }
    if verdict.decision != "void":
        figures |= {"pairs": 51, "missing": 3, "missing_p": 500}
    return verdict.model_copy(update=arms | figures)


@pytest.mark.parametrize("decision", ["promote", "hold", "void"])
def test_of_two_sealed_parts_with_one_decision_the_same_is_told(decision: str) -> None:
    verdict = a_verdict(decision)
    other = unlike(verdict)
    assert explain_decision(other) == explain_decision(verdict)
    hidden, its = (hide_figures(each.model_dump(mode="json"), each) for each in (verdict, other))
    told = {name: value for name, value in its.items() if value not in (None, [])}
    assert {name: hidden[name] for name in told} == told
    assert set(its) == set(other.model_dump())
    assert set(told) <= {
        *("decision", "reasons", "benchmark", "rules", "alpha", "alpha_spent", "visible", "champion", "challenger"),
        *(("pairs", "missing", "missing_p") if decision == "void" else ()),
    }
    assert its["challenger"] == {
        name: value if name == "artifact" else None for name, value in other.challenger.model_dump(mode="json").items()
    }


def test_a_hold_does_not_say_which_check_failed_and_a_void_says_what_was_lost() -> None:
    assert tell_reasons(a_verdict("hold")) == tell_reasons(unlike(a_verdict("hold"))) == ("not every check is met",)
    assert tell_reasons(a_verdict("promote")) == ("every check is met",)
    void = a_verdict("void")
    assert tell_reasons(void) == void.reasons


def test_visible_instances_are_told_beside_the_decision() -> None:
    seen = Visible(instances=4, champion_mean=250_000, challenger_mean=1_000_000)
    told = dict(explain_decision(a_verdict("hold").model_copy(update={"visible": seen})))
    assert told["visible instances"] == "4 instances: champion 0.25, challenger 1; not used for the decision"


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
