from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlog.events import PairedRule
from eventlog.store import Position
from projections.candidacy import cold_ones, may_return, piece_status
from projections.engine.projection import advance, replay, row_of, rows_with_keys
from projections.evidence import Evidence
from projections.rewrites import REWRITES, RewriteState
from tests.golden.test_golden_samples import sample

from .test_folds_rewrites import PROPOSED, QUARANTINED, WON, after
from .test_folds_samples import DAWN, only, told

RULE = PairedRule().model_dump(mode="json")
ASKED = sample("RewriteProposed", rewrite="w", rule=RULE, run="proposer")
AGAIN = sample("RewriteProposed", rewrite="w", rule=RULE, run="second proposer")


def treated(won: bool, successes: int, run: str = "treated", controls: tuple[str, ...] = ("a", "b", "c")) -> Any:
    kind = "RewriteWon" if won else "RewriteLost"
    return sample(kind, rewrite="w", run=run, control_runs=list(controls), control_successes=successes)


def tried(won: bool, successes: int, *, withheld: bool, kind: str = "rewrite") -> Any:
    values = {"control_runs": ["a", "b", "c"], "control_successes": successes, "won": won, "withheld": withheld}
    return sample("PieceTried", piece="w", kind=kind, run="treated", **values)


CLEAN, FLAT, IDLE = treated(True, 0), treated(True, 3), treated(False, 0)
HARM, GOOD = tried(True, 0, withheld=True), tried(False, 3, withheld=True)
PAIRED = {
    "+": CLEAN,  # a win beside three failures
    "=": FLAT,  # a win beside three wins
    "-": IDLE,
    "h": HARM,  # without the piece the run did better
    "g": GOOD,  # without it the run did worse
    "p": AGAIN,
    "Q": QUARANTINED,
}


def under_pairs(story: str) -> RewriteState:
    """A rewrite proposed under the paired rule, after what the letters tell."""
    return only(REWRITES, ASKED, *(PAIRED[letter] for letter in story))


@pytest.mark.parametrize(
    ("story", "status"),
    [
        ("+" * 9, "candidate"),
        ("+" * 10, "promoted"),
        ("=" * 49, "candidate"),
        ("=" * 50, "retired"),
        ("-" * 50, "retired"),
        ("=" * 50 + "+" * 50, "retired"),
        ("+" * 10 + "-" * 60, "promoted"),
        ("+" * 10 + "h" * 9, "promoted"),
        ("+" * 10 + "h" * 10, "demoted"),
        ("+" * 10 + "g" * 60, "promoted"),
        ("+" * 10 + "h" * 9 + "g" + "h" * 9, "promoted"),
        (
            "+" * 10 + "h" * 9 + "g" + "h" * 9 + "g",
            "demoted",
        ),  # a look sums up, whatever the trial before it was
        ("h" * 60, "candidate"),
        ("+" * 10 + "h" * 10 + "+" * 50, "demoted"),
    ],
)
def test_paired_evidence_decides_at_its_looks(story: str, status: str) -> None:
    state = under_pairs(story)
    assert state.status == status
    assert (state.promoted_since is not None) == (status == "promoted")


@pytest.mark.parametrize(
    ("story", "status"),
    [
        ("=" * 50 + "p", "candidate"),
        ("=" * 50 + "p" + "+" * 10, "promoted"),
        ("+" * 10 + "h" * 10 + "p", "candidate"),
        ("+" * 10 + "h" * 10 + "p" + "=" * 50, "retired"),
        ("+" * 10 + "p", "promoted"),
        ("+" * 5 + "p" + "+" * 5, "promoted"),
        ("Q", "quarantined"),
        ("Q" + "+" * 50, "quarantined"),
        ("Qp", "quarantined"),
        ("Qp" + "+" * 9, "quarantined"),
        ("Qp" + "+" * 10, "promoted"),
        ("+" * 10 + "Qp" + "+" * 10, "promoted"),
        ("Qp" + "=" * 50, "quarantined"),
        ("Qp" + "=" * 50 + "+" * 50, "quarantined"),
        ("Qp" + "=" * 50 + "p" + "+" * 10, "promoted"),
        ("Qp" + "+" * 9 + "Q" + "+", "quarantined"),
    ],
)
def test_every_way_back_begins_with_a_new_proposal(story: str, status: str) -> None:
    assert under_pairs(story).status == status


def test_evidence_begins_anew_with_a_new_candidacy() -> None:
    state = under_pairs("=" * 50 + "p")
    assert (state.treated, state.withheld, state.proposed_by) == (Evidence(), Evidence(), "second proposer")
    assert (state.wins, state.losses) == (50, 0)


def test_the_evidence_of_withheld_runs_begins_anew_after_the_last_look() -> None:
    assert under_pairs("+" * 10 + "g" * 49).withheld.k == 49
    assert under_pairs("+" * 10 + "g" * 50).withheld == Evidence()
    assert under_pairs("+" * 10 + "g" * 50 + "h" * 10).status == "demoted"


def test_the_evidence_that_promoted_is_kept_as_it_was() -> None:
    assert under_pairs("+" * 10 + "=" * 7).treated == under_pairs("+" * 10).treated
    assert under_pairs("+" * 10 + "=" * 7).wins == 17


def test_the_run_that_proposed_is_never_evidence_not_even_as_a_control() -> None:
    own = treated(True, 0, run="proposer")
    beside = treated(True, 0, controls=("a", "b", "proposer"))
    assert only(REWRITES, ASKED, *[own] * 5, *[beside] * 5) == only(REWRITES, ASKED)


def test_a_trial_without_the_controls_that_the_rule_asks_is_no_evidence() -> None:
    assert only(REWRITES, ASKED, *[WON] * 50) == only(REWRITES, ASKED)
    assert only(REWRITES, ASKED, *[treated(True, 0, controls=("a",))] * 50) == only(REWRITES, ASKED)


def test_a_piece_of_another_kind_is_not_a_rewrite() -> None:
    assert only(REWRITES, ASKED, tried(True, 0, withheld=False, kind="hint")) == only(REWRITES, ASKED)


def test_a_rewrite_tried_by_the_general_event_counts_like_one_that_won() -> None:
    general = only(REWRITES, ASKED, *[tried(True, 0, withheld=False)] * 10)
    assert general == only(REWRITES, ASKED, *[CLEAN] * 10)
    assert general.status == "promoted"


def test_a_quarantine_under_the_seeds_rule_ends_only_with_a_paired_rule() -> None:
    assert not after("WWWQ").is_on_trial
    assert not only(REWRITES, PROPOSED, QUARANTINED, PROPOSED).is_on_trial
    state = only(REWRITES, PROPOSED, QUARANTINED, ASKED)
    assert (state.status, state.is_on_trial) == ("quarantined", True)


def test_what_was_quarantined_before_anybody_proposed_it_is_no_candidate() -> None:
    assert only(REWRITES, QUARANTINED, PROPOSED).status == "quarantined"


def test_a_cold_rewrite_is_a_candidate_again_by_a_proposal_and_a_warm_one_is_not() -> None:
    strict = sample("RewriteProposed", rewrite="w", rule={**RULE, "cold_after_days": 0})
    idle = only(REWRITES, strict, *[CLEAN] * 10, AGAIN)
    assert (idle.status, idle.treated) == ("candidate", Evidence())
    now = DAWN + timedelta(days=31)
    states_ = {"w": under_pairs("+" * 10)}
    assert piece_status(states_["w"], now) == "cold"
    assert cold_ones(states_, now) == may_return(states_, now) == {"w"}
    assert cold_ones(states_, DAWN) == may_return(states_, DAWN) == frozenset()


def test_what_may_return_is_what_a_proposal_would_bring_back() -> None:
    stories = {"": False, "=" * 50: True, "+" * 10: False, "+" * 10 + "h" * 10: True, "Q": True, "Qp": False}
    assert {story: bool(may_return({"w": under_pairs(story)}, DAWN)) for story in stories} == stories


@given(st.text("+=-hgpQ", max_size=130))
def test_only_trials_promote_retire_and_demote_and_only_proposals_bring_back(story: str) -> None:
    of_treated = {("candidate", "promoted"), ("quarantined", "promoted"), ("candidate", "retired")}
    of_withheld = {("promoted", "demoted")}
    of_proposals = {("retired", "candidate"), ("demoted", "candidate")}
    allowed = dict.fromkeys("+=-", of_treated) | dict.fromkeys("hg", of_withheld) | {"p": of_proposals}
    status = "candidate"
    changes = replay(REWRITES, told(ASKED, *(PAIRED[letter] for letter in story)))
    for letter, change in zip(story, changes[1:], strict=True):
        assert change.state is not None
        turned = change.state.status
        assert turned == status or letter == "Q" or (status, turned) in allowed[letter]
        status = turned


@given(st.text("+=-hgpQ", max_size=80), st.lists(st.integers(1, 80), max_size=6))
def test_the_fold_is_the_same_in_any_split_into_batches(story: str, cuts: list[int]) -> None:
    rows = rows_with_keys(
        REWRITES,
        [row_of(event, REWRITES.reads[event.event.type]) for event in told(ASKED, *(PAIRED[x] for x in story))],
    )
    whole, parts = dict[str, RewriteState](), dict[str, RewriteState]()
    changes = list(advance(REWRITES, whole, rows))
    edges = sorted({0, len(rows), *(min(cut, len(rows)) for cut in cuts)})
    split = [change for one, two in pairwise(edges) for change in advance(REWRITES, parts, rows[one:two])]
    assert (split, parts) == (changes, whole)
    assert [REWRITES.decode(msgspec.to_builtins(state)) for state in whole.values()] == list(whole.values())
    assert [change.since for change in changes] == [Position(index) for index in range(1, len(rows) + 1)]
