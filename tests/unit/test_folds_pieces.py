"""Hints, exemplars, snippets and recipes: one state machine, decided by the rule that each came with."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlog.events import AnyEvent, PairedRule, PieceKind, SeedsRule
from projections.candidacy import Candidacy, cold_ones, piece_status, worth, worth_now
from projections.engine.projection import newest_states, replay
from projections.engine.views import ReplayedViews
from projections.memories import FOLDS, LOOSE, candidacies, piece_kind
from projections.pieces import HINTS, PieceState
from tests.golden.test_golden_samples import sample

from .test_agent_samples import a_store, add
from .test_folds_samples import DAWN, only, states, told

RECORDED: dict[PieceKind, str] = {
    "hint": "HintRecorded",
    "exemplar": "ExemplarCaptured",
    "snippet": "SnippetLearned",
    "recipe": "RecipeImported",
    "skill": "PieceProposed",
    "instruction": "PieceProposed",
}
KINDS = pytest.mark.parametrize("kind", LOOSE)
PAIRED = PairedRule().model_dump(mode="json")


def recorded(kind: PieceKind, run: str | None = "finder", rule: object = PAIRED, piece: str = "w") -> Any:
    named: dict[str, str] = {"piece": piece, "kind": kind} if RECORDED[kind] == "PieceProposed" else {str(kind): piece}
    return sample(RECORDED[kind], **named, rule=rule, run=run)


def tried(kind: PieceKind, won: bool, successes: int, *, withheld: bool = False, run: str = "r") -> Any:
    values = {"control_runs": ["a", "b", "c"], "control_successes": successes, "won": won, "withheld": withheld}
    return sample("PieceTried", piece="w", kind=kind, run=run, **values)


def letters(kind: PieceKind) -> dict[str, AnyEvent]:
    return {
        "+": tried(kind, True, 0),
        "=": tried(kind, True, 3),
        "-": tried(kind, False, 0),
        "h": tried(kind, True, 0, withheld=True),
        "p": recorded(kind, "second finder"),
        "Q": sample("MemoryQuarantined", piece="w", kind=kind),
    }


def after(kind: PieceKind, story: str) -> PieceState:
    return only(LOOSE[kind], recorded(kind), *(letters(kind)[letter] for letter in story))


@KINDS
@pytest.mark.parametrize(
    ("story", "status"),
    [
        ("", "candidate"),
        ("+" * 10, "promoted"),
        ("=" * 50, "retired"),
        ("+" * 10 + "h" * 10, "demoted"),
        ("+" * 10 + "Q", "quarantined"),
        ("=" * 50 + "p", "candidate"),
        ("Qp" + "+" * 10, "promoted"),
        ("Qp" + "=" * 50, "quarantined"),
    ],
)
def test_every_kind_is_decided_as_rewrites_are(kind: PieceKind, story: str, status: str) -> None:
    assert after(kind, story).status == status


@KINDS
@given(story=st.text("+=-hpQ", max_size=70))
def test_a_piece_of_any_kind_and_a_rewrite_with_the_same_record_stand_alike(kind: PieceKind, story: str) -> None:
    asked = sample("RewriteProposed", rewrite="w", rule=PAIRED, run="finder")
    again = sample("RewriteProposed", rewrite="w", rule=PAIRED, run="second finder")
    of_rewrite = {**letters(kind), "p": again}
    as_rewrite = [_as_rewrite(of_rewrite[letter]) for letter in story]
    one, other = after(kind, story), only(FOLDS["rewrite"], asked, *as_rewrite)
    fields = [name for name in Candidacy.__struct_fields__ if name != "source"]
    assert [getattr(one, name) for name in fields] == [getattr(other, name) for name in fields]


def _as_rewrite(event: AnyEvent) -> Any:
    return event.model_copy(update={"kind": "rewrite"}) if hasattr(event, "kind") else event


@KINDS
def test_a_row_holds_what_was_recorded(kind: PieceKind) -> None:
    event = recorded(kind)
    state = only(LOOSE[kind], event)
    assert (state.piece, state.kind, state.proposed_by) == ("w", kind, "finder")
    assert state.content == getattr(event, "content")  # noqa: B009 each kind has one
    assert set(state.occasion) == {"environment", "type", "intent", "page"}


def test_rank_form_and_title_are_those_of_the_kind() -> None:
    hint, exemplar = after("hint", ""), after("exemplar", "")
    assert hint.rank == sample("HintRecorded").confidence
    assert (exemplar.rank, exemplar.form) == (
        sample("ExemplarCaptured").reward,
        sample("ExemplarCaptured").form,
    )
    assert after("snippet", "").title == sample("SnippetLearned").title
    assert after("recipe", "").title == sample("RecipeImported").title
    assert after("skill", "").title == after("instruction", "").title == sample("PieceProposed").title


@KINDS
def test_the_run_that_found_it_is_no_evidence_and_a_piece_that_no_run_found_takes_any(kind: PieceKind) -> None:
    own = tried(kind, True, 0, run="finder")
    assert only(LOOSE[kind], recorded(kind), *[own] * 20).treated.k == 0
    assert only(LOOSE[kind], recorded(kind, run=None), *[own] * 10).status == "promoted"


@KINDS
def test_what_a_withdrawn_run_found_is_gone_and_what_nobody_ran_stays(kind: PieceKind) -> None:
    withdrawn = sample("RunsWithdrawn", runs=["finder"])
    assert states(LOOSE[kind], recorded(kind), withdrawn) == {}
    assert set(states(LOOSE[kind], recorded(kind, run=None), withdrawn)) == {"w"}


def test_a_hint_of_a_withdrawn_trial_loses_that_trial_alone() -> None:
    events = (recorded("hint"), *[tried("hint", True, 0, run=f"r{n}") for n in range(10)])
    assert only(HINTS, *events).status == "promoted"
    assert only(HINTS, *events, sample("RunsWithdrawn", runs=["r3"])).status == "candidate"


@given(st.lists(st.booleans(), max_size=40), st.integers(0, 400))
def test_worth_falls_with_losses_and_with_idle_days_and_never_leaves_its_range(wins: list[bool], days: int) -> None:
    events = (recorded("hint"), *(tried("hint", won, 0) for won in wins))
    state = only(HINTS, *events)
    lost = only(HINTS, *events, tried("hint", False, 0))
    now = DAWN + timedelta(days=1)
    assert 0 <= worth_now(state, now + timedelta(days=days + 1)) < worth_now(state, now) <= worth(state) <= 1_000_000
    assert state.treated == lost.treated or worth(lost) < worth(state)


def test_half_of_a_worth_is_left_after_the_idle_days_that_the_rule_allows() -> None:
    state = after("hint", "+" * 10)
    last = DAWN + timedelta(minutes=10)
    assert worth_now(state, last) == worth(state) == 1_000_000 * 11 // 12
    assert worth_now(state, last + timedelta(days=30)) == worth(state) // 2


def test_runs_that_did_without_it_and_passed_lower_its_worth() -> None:
    kept, doubted = after("hint", "+" * 10), after("hint", "+" * 10 + "h" * 3)
    now = DAWN + timedelta(hours=1)
    assert worth_now(doubted, now) < worth_now(kept, now)


def test_a_promoted_hint_without_a_trial_for_long_is_cold() -> None:
    state = after("hint", "+" * 10)
    later = DAWN + timedelta(days=31)
    assert piece_status(state, later) == "cold"
    assert cold_ones({"w": state}, later) == {"w"}


def test_all_kinds_are_found_together_and_know_their_kind() -> None:
    store = a_store()
    for kind in RECORDED:
        add(store, f"{kind}/{kind}-1", recorded(kind, piece=f"{kind}-1"))
    add(store, "rewrite/rw-1", sample("RewriteProposed", rewrite="rw-1"))
    found = candidacies(ReplayedViews(store, store.head()))
    assert {key: piece_kind(state) for key, state in found.items()} == {
        "rw-1": "rewrite",
        **{f"{kind}-1": kind for kind in RECORDED},
    }


def test_under_the_seeds_rule_three_wins_promote_and_two_losses_demote() -> None:
    asked = recorded("hint", rule=SeedsRule().model_dump(mode="json"))
    win, loss = tried("hint", True, 0), tried("hint", False, 0)
    assert newest_states(replay(HINTS, told(asked, win, win, win)))["w"].status == "promoted"
    assert newest_states(replay(HINTS, told(asked, win, win, win, loss, loss)))["w"].status == "demoted"
