from __future__ import annotations

import re
from typing import Any

import pytest

from eventlog.events import Confirmation, Interval, Rules, Stratum, Verdict, VerdictReached, Visible
from gate.explain import explain
from gate.figures import count_noun, decimal, dollars, probability
from tests.golden.test_golden_samples import sample

LABELS = [
    "decision",
    "reasons",
    "champion",
    "challenger",
    "test",
    "ledger",
    "mean difference",
    "missing",
    "looked worse",
    "played again",
    "regressions",
    "costs",
    "compared costs",
    "probability of improvement",
    "win rate",
    "wins, ties, losses",
    "by template",
    "McNemar's p",
    "power",
    "visible instances",
]


def bootstrapped() -> Verdict:
    """The kept sample: a verdict of before the ledger, by the bootstrap."""
    event = sample("VerdictReached")
    assert isinstance(event, VerdictReached)
    return event.verdict


def by_sign_flips(**changes: Any) -> Verdict:
    """A verdict by sign flips on the same arms, all numbers said."""
    said = {
        "rules": Rules(),
        "reasons": ("one", "another"),
        "missing": 3,
        "missing_p": 250_000_000_000,
        "alpha": 5_000,
        "alpha_spent": 15_000,
        "p_value": 976_562_500,
        "looked_at": 10,
        "wins": 8,
        "ties": 2,
        "losses": 0,
        "mcnemar": 7_812_500_000,
        "power": 930_000,
        "pairs_needed": 7,
        "screened": ("t1__seed3", "t2__seed4"),
        "confirmations": (confirmation("t1__seed3", passed=2), confirmation("t2__seed4", passed=11)),
        "regressions": ("t1__seed3",),
        "strata": (
            Stratum(template="t1", instances=9, mean_delta=-250_000),
            Stratum(template="t2", instances=1, mean_delta=1_000_000),
        ),
        "visible": Visible(instances=4, champion_mean=500_000, challenger_mean=750_000),
    }
    return bootstrapped().model_copy(update={**said, **changes})


def confirmation(instance: str, passed: int) -> Confirmation:
    return Confirmation(
        instance=instance,
        champion_runs=12,
        champion_passed=11,
        challenger_runs=12,
        challenger_passed=passed,
        p_value=344_000_000 if passed == 2 else 760_000_000_000,
        is_regression=passed == 2,
    )


@pytest.mark.parametrize(
    ("millionths", "text"),
    [
        (0, "0"),
        (1, "0.000001"),
        (-1, "-0.000001"),
        (20_000, "0.02"),
        (-125_000, "-0.125"),
        (1_000_000, "1"),
        (-1_500_000, "-1.5"),
        (12_000_000, "12"),
    ],
)
def test_millionths_are_written_exactly(millionths: int, text: str) -> None:
    assert decimal(millionths) == text


def test_costs_counts_and_probabilities_are_written() -> None:
    assert (dollars(None), dollars(2_500_000)) == ("unknown", "$2.5")
    assert (count_noun(1, "run"), count_noun(0, "run")) == ("1 run", "0 runs")
    assert [probability(p) for p in (0, 1, 488_281_250, 10**12)] == ["0", "0.000000000001", "0.00048828125", "1"]


def test_a_verdict_in_words() -> None:
    rows = dict(explain(by_sign_flips()))
    assert list(rows) == [*LABELS[:7], "corrected difference", *LABELS[7:]]
    champion = "base@0: 2 of 10 runs passed (95 % interval 0.056682 to 0.509838), mean score 0.2"
    assert (rows["decision"], rows["reasons"], rows["champion"]) == ("promote", "one; another", champion)
    assert rows["test"] == "sign flips, exact: p 0.0009765625 is at most alpha 0.005"
    assert re.findall(r"0\.[0-9]+", rows["ledger"]) == ["0.005", "0.015"]
    assert rows["mean difference"] == "0.8 (95 % interval 0.5 to 1); margin 0.02"
    assert re.findall(r"[0-9.]+", rows["missing"]) == ["3", "10", "0.25"]
    assert rows["looked worse"] == "t1__seed3, t2__seed4"
    assert rows["played again"] == (
        "t1__seed3: champion 11 of 12, challenger 2 of 12, p 0.000344, a regression; "
        "t2__seed4: champion 11 of 12, challenger 11 of 12, p 0.76, no regression"
    )
    assert rows["regressions"] == "t1__seed3"
    assert (rows["wins, ties, losses"], rows["McNemar's p"]) == ("8, 2, 0", "0.0078125")
    assert rows["by template"] == "t1 -0.25 over 9 instances; t2 1 over 1 instance"
    assert re.findall(r"[0-9.]+", rows["power"]) == ["0.93", "7", "0.8"]
    assert rows["visible instances"] == "4 instances: champion 0.5, challenger 0.75; not used for the decision"


def test_costs_of_all_runs_are_told_apart_from_those_that_were_compared() -> None:
    rows = dict(explain(by_sign_flips()))
    assert rows["costs"] == "challenger $0.021, champion $0.0054"
    over = "challenger $0.0042, champion $0.0038, over pairs that both arms passed; at most 1.5 times is allowed"
    assert rows["compared costs"] == over
    assert "over all pairs;" in dict(explain(by_sign_flips(rules=Rules(cost_basis="all_pairs"))))["compared costs"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"p_value": 1}, "sign flips, exact: p < 0.000001 is at most alpha 0.005"),
        ({"p_value": 5_000_000_000}, "sign flips, exact: p 0.005 is at most alpha 0.005"),
        ({"p_value": 5_000_000_001, "draws": 4_000}, "sign flips, 4000 draws: p 0.005000000001 is above alpha 0.005"),
        ({"p_value": None}, "sign flips: not computed"),
        (
            {"rules": Rules(test="e_process"), "e_value": 212_500_000, "looked_at": 60},
            "e-process: 212.5 after 60 instances; 1 / alpha with alpha 0.005 is required",
        ),
        ({"rules": Rules(test="e_process")}, "e-process: not computed"),
    ],
)
def test_what_decided_is_said_with_what_was_asked(changes: dict[str, Any], words: str) -> None:
    assert dict(explain(by_sign_flips(**changes)))["test"] == words


def test_the_bootstrap_of_the_seeds_says_what_it_does_not_know() -> None:
    rows = dict(explain(bootstrapped()))
    assert list(rows) == LABELS
    assert rows["test"].startswith("bootstrap of the seed documents")
    assert rows["ledger"].startswith("no alpha: ")
    assert (rows["probability of improvement"], rows["win rate"]) == ("1", "1")
    unsaid = ["wins, ties, losses", "by template", "McNemar's p", "power", "visible instances"]
    assert {rows[label] for label in unsaid} == {"not computed"}
    assert {rows[label] for label in ("looked worse", "played again", "regressions")} == {"none"}


def test_what_was_not_computed_says_so() -> None:
    nobody = bootstrapped().challenger.model_copy(
        update={"runs": 0, "mean_score": None, "cost": None, "success": Interval(low=0, high=1_000_000)}
    )
    unsaid = dict.fromkeys(("mean_delta", "interval", "p_value", "missing_p", "pairs_needed"))
    rows = dict(explain(by_sign_flips(decision="void", challenger=nobody, pairs=0, **unsaid)))
    assert rows["challenger"] == "base@395: no run compared"
    assert rows["mean difference"] == "not computed; margin 0.02"
    assert rows["missing"] == "3 run pairs, 0 sealed instances compared"
    assert rows["costs"] == "challenger unknown, champion $0.0054"
    assert rows["power"].startswith("0.93 at ")
