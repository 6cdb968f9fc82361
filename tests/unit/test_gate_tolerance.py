"""Losses that are tolerated: from which difference an instance looks worse, and is a regression."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlog.events import Rules, Verdict
from gate.alpha import Alpha
from gate.arms import Arm, Result
from gate.judge import judge, screen
from tests.unit.test_gate_samples import an_arm, benchmark

ONE = 1_000_000
HALF_PAID = 500_000
TOLERATED = 50_000
FIRST = Alpha(1, 5_000, 5_000)
STRICT = Rules(min_pairs=1, bootstrap_samples=20, regression_by="score")
TOLERANT = STRICT.model_copy(update={"tolerated_loss": TOLERATED})
GAINS = 40
"""Instances that fail with the champion and pass with the challenger; the next ones are those that lose."""


def fresh(arm: Arm, scores: Sequence[Sequence[int]]) -> Arm:
    """The arm with fresh repeats of the instances after the gains."""
    found = {
        ("t1", GAINS + index, 1 + repeat): Result(score, score == ONE, 1)
        for index, own in enumerate(scores)
        for repeat, score in enumerate(own)
    }
    return replace(arm, confirming=found)


def verdict(before: Sequence[int], after: Sequence[int], rules: Rules) -> Verdict:
    """Many gains, and instances whose score goes from `before` to `after`, the same at each of twelve fresh repeats."""
    frozen = benchmark(sealed=GAINS + len(before))
    champion = an_arm(frozen, "champion", [0] * GAINS + list(before))
    challenger = an_arm(frozen, "challenger", [ONE] * GAINS + list(after))
    repeats = [[[score] * 12 for score in side] for side in (before, after)]
    return judge(fresh(champion, repeats[0]), fresh(challenger, repeats[1]), frozen, rules, FIRST)


def test_rules_of_older_evaluations_tolerate_nothing_and_are_stored_as_before() -> None:
    assert not Rules().tolerated_loss
    assert not Rules.seeds().tolerated_loss
    assert "tolerated_loss" not in Rules().model_dump(mode="json")
    assert {Rules.default(test).tolerated_loss for test in ("sign_flip", "group_sequential", "e_process")} == {
        TOLERATED
    }


@pytest.mark.parametrize("loss", [20_000, TOLERATED])
def test_a_small_loss_of_partial_credit_vetoes_only_where_nothing_is_tolerated(loss: int) -> None:
    before, after = [HALF_PAID] * 8, [HALF_PAID - loss] * 8
    assert verdict(before, after, STRICT).decision == "hold"
    found = verdict(before, after, TOLERANT)
    assert found.decision == "promote"
    assert found.screened == ()
    assert "no sealed instance looked worse by more than 0.05" in found.reasons


def test_a_loss_beyond_what_is_tolerated_vetoes() -> None:
    found = verdict([HALF_PAID], [HALF_PAID - TOLERATED - 1], TOLERANT)
    assert found.decision == "hold"
    assert found.regressions == (f"t1__seed{GAINS}",)


def test_what_looked_much_worse_and_is_a_little_worse_in_fresh_repeats_is_no_regression() -> None:
    """The loss of a single run is chance; that of the fresh repeats is sure, and small."""
    frozen = benchmark(sealed=GAINS + 1)
    champion = fresh(an_arm(frozen, "champion", [0] * GAINS + [ONE]), [[HALF_PAID] * 12])
    challenger = fresh(an_arm(frozen, "challenger", [ONE] * GAINS + [0]), [[HALF_PAID - TOLERATED] * 12])
    held, promoted = (judge(champion, challenger, frozen, rules, FIRST) for rules in (STRICT, TOLERANT))
    assert held.decision == "hold"
    assert held.confirmations[0].p_value == promoted.confirmations[0].p_value
    assert promoted.decision == "promote"
    assert promoted.screened == (f"t1__seed{GAINS}",)
    assert promoted.regressions == ()


def test_without_tolerance_p_alone_confirms_as_it_did_when_older_verdicts_were_reached() -> None:
    """p takes scores in fiftieths: eleven fall below the champion's by rounding, though the sum is higher."""
    frozen = benchmark(sealed=GAINS + 1)
    champion = fresh(an_arm(frozen, "champion", [0] * GAINS + [ONE]), [[490_000] * 12])
    challenger = fresh(an_arm(frozen, "challenger", [ONE] * GAINS + [0]), [[489_000] * 11 + [509_000]])
    assert [judge(champion, challenger, frozen, rules, FIRST).decision for rules in (STRICT, TOLERANT)] == [
        "hold",
        "promote",
    ]


def test_a_template_that_loses_as_a_whole_vetoes_however_little() -> None:
    frozen = benchmark(sealed=20, templates=("t1", "t2"))
    before, after = [0] * 20 + [HALF_PAID] * 20, [ONE] * 20 + [HALF_PAID - 20_000] * 20
    rules = TOLERANT.model_copy(update={"family_p": 50_000})
    repeats = [("t2", seed, 1 + repeat) for seed in range(20) for repeat in range(12)]
    champion, challenger = an_arm(frozen, "champion", before), an_arm(frozen, "challenger", after)
    found = judge(
        replace(champion, confirming=dict.fromkeys(repeats, Result(before[-1], False, 1))),
        replace(challenger, confirming=dict.fromkeys(repeats, Result(after[-1], False, 1))),
        frozen,
        rules,
        FIRST,
    )
    assert (found.decision, found.screened) == ("hold", ())
    assert [each.template for each in found.families if each.is_worse] == ["t2"]


def test_repeats_that_are_missing_are_no_small_loss() -> None:
    frozen = benchmark(sealed=GAINS + 1)
    champion = an_arm(frozen, "champion", [0] * GAINS + [ONE])
    challenger = an_arm(frozen, "challenger", [ONE] * GAINS + [0])
    assert judge(champion, challenger, frozen, TOLERANT, FIRST).decision == "hold"


@given(st.lists(st.sampled_from([(0, ONE), (ONE, 0), (0, 0), (ONE, ONE)]), min_size=2, max_size=12))
def test_where_runs_pass_or_fail_tolerance_changes_nothing(pairs: list[tuple[int, int]]) -> None:
    frozen = benchmark(sealed=GAINS + len(pairs))
    champion = an_arm(frozen, "champion", [0] * GAINS + [one for one, _ in pairs])
    challenger = an_arm(frozen, "challenger", [ONE] * GAINS + [other for _, other in pairs])
    assert screen(champion, challenger, frozen, TOLERANT, FIRST) == screen(champion, challenger, frozen, STRICT, FIRST)
