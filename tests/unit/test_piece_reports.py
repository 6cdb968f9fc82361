from __future__ import annotations

from datetime import timedelta

import pytest

from api.queries.piece_reports import summarize_piece, trials_of, why
from projections.engine.projection import replay
from projections.rewrites import REWRITES, RewriteState
from tests.golden.test_golden_samples import sample

from .test_folds_rewrites import after
from .test_folds_rewrites_paired import ASKED, CLEAN, HARM, PAIRED, treated, under_pairs
from .test_folds_samples import DAWN, told


@pytest.mark.parametrize(
    ("story", "words"),
    [
        ("+" * 4, "4 trials, U 12, V 12, k·U² is 576 where 3,576 is asked and V at least 30, 4 wins in a row of 3"),
        ("+" * 4, "looked at next at 10"),
        ("+" * 10, "treated runs did better than their siblings: 10 trials, U 30, V 30, k·U² is 9,000 where 8,940"),
        ("=" * 50, "the last look is past: 50 trials, U 0, V 0"),
        ("+" * 10 + "h" * 10, "runs without it did better than their siblings: 10 trials, U 30, V 30"),
        ("Q", "taken out by a rollback"),
        ("Qp+", "1 trials, U 3, V 3"),
    ],
)
def test_why_a_paired_rewrite_is_what_it_is(story: str, words: str) -> None:
    assert words in why(under_pairs(story), DAWN)


@pytest.mark.parametrize(
    ("story", "words"),
    [("WW", "2 wins in a row of 3"), ("WWW", "3 wins in a row; 2 losses"), ("WWWLL", "2 losses in a row")],
)
def test_why_a_rewrite_under_the_seeds_rule_is_what_it_is(story: str, words: str) -> None:
    assert words in why(after(story), DAWN)


def test_a_cold_one_and_one_that_nobody_proposed_say_so() -> None:
    assert why(under_pairs("+" * 10), DAWN + timedelta(days=40)).startswith("promoted, and without a trial for more")
    assert why(RewriteState(status="candidate"), DAWN) == "nobody proposed it"


def test_a_row_has_the_evidence_that_decides_next() -> None:
    row = summarize_piece(under_pairs("+" * 10 + "gg"), DAWN)
    assert (row.status, row.trials, row.u, row.v) == ("promoted", 2, -6, 6)
    assert (row.controls_passed, row.next_look) == ("6 of 6", 10)
    assert summarize_piece(under_pairs("=" * 50), DAWN).next_look is None
    assert summarize_piece(after("WW"), DAWN).next_look is None


def test_every_trial_is_listed_with_what_it_came_to() -> None:
    recorded = told(ASKED, *(PAIRED[letter] for letter in "+" * 10 + "h=p"))
    found = trials_of(recorded, replay(REWRITES, recorded))
    assert len(found) == 12
    assert [(item.tried, item.won, item.k, item.status) for item in found][8:] == [
        ("treated", True, 9, "candidate"),
        ("treated", True, 10, "promoted"),
        ("withheld", True, 1, "promoted"),
        ("treated", True, 10, "promoted"),
    ]
    assert found[-1].controls_passed == "3 of 3"


def test_a_trial_counts_that_its_fold_counted_and_none_of_whose_runs_was_withdrawn_since() -> None:
    own, few = treated(True, 0, run="proposer"), treated(True, 0, controls=("a",))
    gone, beside = treated(True, 0, run="gone"), treated(True, 0, controls=("a", "b", "gone"))
    withdrawal = sample("RunsWithdrawn", runs=["gone"])
    recorded = told(ASKED, CLEAN, own, few, gone, beside, *[CLEAN] * 6, HARM, withdrawal, gone, *[CLEAN] * 3, HARM)
    found = trials_of(recorded, replay(REWRITES, recorded), {"gone"})
    counts = [True, *[False] * 4, *[True] * 6, False, False, *[True] * 4]
    assert [item.counts for item in found] == counts
    assert [item.since for item in found if item.status == "withdrawn"] == [5, 6, 15]
    before = trials_of(recorded[:13], replay(REWRITES, recorded[:13]))
    assert [item.counts for item in before] == [True, False, False, True, True, *[True] * 6, False]
    assert "withdrawn" not in {item.status for item in before}
