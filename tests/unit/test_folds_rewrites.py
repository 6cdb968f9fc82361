from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlog.events import AnyEvent, SeedsRule
from projections.candidacy import is_cold
from projections.rewrites import REWRITES, RewriteState
from tests.golden.test_golden_samples import sample

from .test_folds_samples import DAWN, only, states

PROPOSED = sample("RewriteProposed", rewrite="w")
WON = sample("RewriteWon", rewrite="w")
LOST = sample("RewriteLost", rewrite="w")
QUARANTINED = sample("MemoryQuarantined", piece="w", kind="rewrite")
TOLD = {"W": WON, "L": LOST, "Q": QUARANTINED}


def after(story: str) -> RewriteState:
    """A proposed rewrite after wins (W), losses (L) and a quarantine (Q)."""
    return only(REWRITES, PROPOSED, *(TOLD[letter] for letter in story))


@pytest.mark.parametrize(
    ("story", "status"),
    [
        ("", "candidate"),
        ("WW", "candidate"),
        ("WWW", "promoted"),
        ("WWWWW", "promoted"),
        ("WWLWW", "candidate"),
        ("WWLWWW", "promoted"),
        ("LLLLL", "candidate"),
        ("WWWL", "promoted"),
        ("WWWLWL", "promoted"),
        ("WWWLL", "demoted"),
        ("WWWLLWW", "demoted"),
        ("WWWLLWLWW", "demoted"),
        ("WWWLLWWW", "promoted"),
        ("WWWLLWWWLL", "demoted"),
        ("Q", "quarantined"),
        ("WWWQ", "quarantined"),
        ("WWWQWWWWWW", "quarantined"),
        ("WWWQLL", "quarantined"),
    ],
)
def test_a_rewrites_standing_follows_its_rule(story: str, status: str) -> None:
    state = after(story)
    assert state.status == status
    assert (state.wins, state.losses) == (story.count("W"), story.count("L"))
    assert (state.promoted_since is not None) == (status == "promoted")


def test_a_promotion_is_since_the_win_that_made_it() -> None:
    assert after("WWW").promoted_since == after("WWWWLW").promoted_since == 4
    assert after("WWWLLWWW").promoted_since == 9


def test_a_loss_ends_a_streak_of_wins_and_a_win_one_of_losses() -> None:
    assert (after("WWL").consecutive_wins, after("WWL").consecutive_losses) == (0, 1)
    assert (after("LLW").consecutive_wins, after("LLW").consecutive_losses) == (1, 0)


def test_the_rule_that_rode_on_the_proposal_decides() -> None:
    rule = {"name": "seeds", "wins_to_promote": 1, "losses_to_demote": 1, "cold_after_days": 1}
    strict = sample("RewriteProposed", rewrite="w", rule=rule)
    assert only(REWRITES, strict, WON).status == "promoted"
    assert only(REWRITES, strict, WON, LOST).status == "demoted"


def test_rewrites_do_not_share_a_record() -> None:
    other = sample("RewriteProposed", rewrite="v")
    found = states(REWRITES, PROPOSED, other, WON, WON, sample("RewriteWon", rewrite="v"), WON)
    assert {key: (state.status, state.wins) for key, state in found.items()} == {
        "w": ("promoted", 3),
        "v": ("candidate", 1),
    }


def test_only_a_promoted_rewrite_grows_cold_and_only_past_its_days() -> None:
    days = SeedsRule().cold_after_days
    promoted, last = after("WWW"), DAWN + timedelta(minutes=3)
    assert not is_cold(promoted, last + timedelta(days=days))
    assert is_cold(promoted, last + timedelta(days=days, microseconds=1))
    assert not is_cold(after("WW"), last + timedelta(days=9 * days))
    assert not is_cold(after("WWWLL"), last + timedelta(days=9 * days))


def test_a_cold_rewrite_is_warm_again_from_its_next_use_on() -> None:
    now = DAWN + timedelta(days=30, minutes=3, seconds=30)
    assert is_cold(after("WWW"), now)
    assert not is_cold(after("WWWW"), now)


def test_a_proposal_is_kept_as_it_was_made() -> None:
    state, event = after("WL"), PROPOSED.model_dump(mode="json")
    assert (state.anchor, state.change, msgspec.to_builtins(state.rule)) == (
        event["anchor"],
        event["change"],
        event["rule"],
    )
    assert (state.source, state.confidence, state.proposed_by) == (event["source"], event["confidence"], event["run"])


@given(st.text("WL", max_size=25))
def test_any_story_agrees_with_the_rule_told_in_words(story: str) -> None:
    status, wins, losses = "candidate", 0, 0
    for letter in story:
        wins, losses = (wins + 1, 0) if letter == "W" else (0, losses + 1)
        if status != "promoted" and wins >= 3:
            status = "promoted"
        elif status == "promoted" and losses >= 2:
            status = "demoted"
    state = after(story)
    assert (state.status, state.consecutive_wins, state.consecutive_losses) == (status, wins, losses)


def test_evidence_for_a_rewrite_that_was_never_proposed_promotes_nothing() -> None:
    events: list[AnyEvent] = [WON, WON, WON, WON]
    assert states(REWRITES, *events) == {}
