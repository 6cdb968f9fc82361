from __future__ import annotations

import pytest

from eventlog.events import Rules
from gate.explain import explain
from gate.figures import counted, decimal, dollars
from gate.judge import judge
from tests.unit.test_gate_samples import HALF, an_arm, benchmark


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


def test_costs_and_counts_are_written() -> None:
    assert (dollars(None), dollars(2_500_000)) == ("unknown", "$2.5")
    assert (counted(1, "run"), counted(0, "run")) == ("1 run", "0 runs")


def test_a_verdict_in_words() -> None:
    frozen = benchmark(sealed=4)
    champion = an_arm(frozen, "champion", [HALF, HALF, HALF, 0], total_cost=2_000_000)
    challenger = an_arm(frozen, "challenger", [1_000_000, 0, HALF, 0], total_cost=None)
    rows = dict(explain(judge(champion, challenger, frozen, Rules.seeds())))
    assert list(rows) == [
        "decision",
        "reasons",
        "champion",
        "challenger",
        "mean difference",
        "probability of improvement",
        "win rate",
        "regressions",
        "costs",
        "compared costs",
        "missing",
    ]
    assert rows["decision"] == "hold"
    assert rows["reasons"].startswith("mean difference 0 is below 0.02; probability of improvement 0.")
    assert rows["champion"] == "base@0: 3 of 4 runs passed (95 % interval 0.300641 to 0.954413), mean score 0.375"
    assert rows["mean difference"] == "0 (95 % interval -0.375 to 0.375)"
    assert rows["win rate"] == "0.75"
    assert rows["regressions"] == "t1__seed1"
    assert rows["costs"] == "challenger unknown, champion $2"
    assert rows["compared costs"] == "challenger unknown, champion $2, over all pairs"
    assert rows["missing"] == "0 run pairs, 4 sealed instances compared"


def test_the_costs_that_were_compared_are_told_apart_from_those_of_all_runs() -> None:
    frozen = benchmark(sealed=2)
    champion = an_arm(frozen, "champion", [HALF, 0], costs=[1_000_000, 500_000])
    challenger = an_arm(frozen, "challenger", [HALF, HALF], costs=[1_500_000, 9_000_000])
    rows = dict(explain(judge(champion, challenger, frozen, Rules())))
    assert rows["costs"] == "challenger $10.5, champion $1.5"
    assert rows["compared costs"] == "challenger $1.5, champion $1, over pairs that both arms passed"


def test_what_was_not_computed_says_so() -> None:
    frozen = benchmark(sealed=1)
    verdict = judge(an_arm(frozen, "champion", [None]), an_arm(frozen, "challenger", [HALF]), frozen, Rules.seeds())
    rows = dict(explain(verdict))
    assert rows["decision"] == "void"
    assert rows["mean difference"] == rows["probability of improvement"] == rows["win rate"] == "not computed"
    assert rows["challenger"] == "base@9: no run compared"
    assert (rows["regressions"], rows["missing"]) == ("none", "1 run pair, 0 sealed instances compared")
