"""Trials of lessons in words: only where they are told, and each cluster has evidence of its own."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agents.learning.advice import BRIEF_BUDGET, BUDGET, READERS, Audience
from agents.learning.occasions import OccasionPiece, lesson_id
from agents.learning.trial_results import Outcomes, credits_of
from agents.rollouts.sweep import SeedSweep, plan_sweep
from agents.rollouts.trials import MOST_ABREAST, TrialPiece, drop_idle, share_controls, treat, would_use
from api.sweeps.candidates import TrialPool
from eventlog.events import HintRecorded, Occasion, PairedRule, PieceTried, SeedsRule, Spec, SweepPlanned, Trials
from projections.memories import candidacies
from projections.rewards import RewardState
from projections.runs import RunState
from tests.unit.test_agent_samples import EMPTY, EVERY_GROUP, ZERO, a_store, add, piece, template, views
from tests.unit.test_retrieval import SITE, lesson

DESK = template("desk").model_copy(update={"cluster": "desk", "instruction": "Ask the dentist."})
MAIL = template("mail").model_copy(update={"cluster": "mail", "instruction": "Ask the dentist by mail."})
TASKS = (DESK, MAIL)


def told(cluster: str, text: str = "Knock first.") -> OccasionPiece:
    occasion = Occasion(environment=SITE, type="click", intent="Ask the dentist.", page="", cluster=cluster)
    return OccasionPiece(lesson_id("hint", occasion, None, text), "hint", occasion, None, text, "", 0, 0)


def tries(*pieces: OccasionPiece) -> tuple[TrialPiece, ...]:
    return tuple(TrialPiece(each, 1) for each in pieces)


def sweep() -> tuple[Spec, ...]:
    return SeedSweep("s1", TASKS, range(6), 2).specs()


def test_a_lesson_is_tried_and_withheld_only_in_the_tasks_that_it_is_told_with() -> None:
    mine, its = told("desk"), told("mail")
    for candidates, promoted, field in ((tries(mine, its), (), "candidate"), ((), tries(mine, its), "withheld")):
        shares = EVERY_GROUP if candidates else Trials(treated_micro=0, withheld_micro=1_000_000)
        specs = treat(sweep(), TASKS, candidates, promoted, shares, 7, SITE, READERS)
        drawn = {(spec.template, getattr(spec, field)) for spec in specs if not spec.is_plain}
        assert drawn == {("desk", mine.piece), ("mail", its.piece)}


def test_runs_of_plans_try_no_lesson_in_words_and_told_runs_try_nothing_else() -> None:
    specs = treat(sweep(), TASKS, tries(told("desk")), (), EVERY_GROUP, 7, SITE)
    assert all(spec.is_plain for spec in specs)
    words = lesson(text="Ask the dentist.")
    assert not would_use(words, DESK, SITE, READERS)
    assert not would_use(piece("/new"), DESK, SITE, READERS)
    assert would_use(piece("/new"), DESK, SITE)


def raced(
    siblings: int, pieces: tuple[TrialPiece, ...], shares: Trials = EVERY_GROUP, promoted: tuple[TrialPiece, ...] = ()
) -> SweepPlanned:
    drawn = SeedSweep("s1", TASKS, range(6), siblings)
    own = {"candidates": pieces, "promoted": promoted, "trials": shares, "audience": READERS}
    return share_controls(plan_sweep(drawn, SITE, EMPTY, rng_seed=7, **own), pieces, READERS)  # type: ignore[arg-type]


def test_siblings_beyond_the_controls_each_try_another_candidate_the_least_tried_first() -> None:
    pieces = tuple(
        TrialPiece(told("desk", f"Knock {number} times."), 3, trials=trials)
        for number, trials in enumerate((0, 0, 9, 0, 0))
    )
    planned = raced(6, pieces)
    for group in {spec.group_id for spec in planned.specs}:
        own = [spec.candidate for spec in planned.specs if spec.group_id == group]
        carried = [each for each in own if each is not None]
        if "__mail__" in group:
            assert carried == []
            continue
        assert own[:3] == [None, None, None]
        assert len(set(carried)) == len(carried) == 3
        assert pieces[2].piece.piece not in own[3:5]  # the last sibling's is drawn among all
    counts = Counter(spec.candidate for spec in planned.specs if spec.candidate)
    assert len(counts) >= 4


def test_no_more_siblings_than_may_go_abreast_try_one_however_many_a_group_has() -> None:
    pieces = tuple(TrialPiece(told("desk", f"Knock {number} times."), 1) for number in range(12))
    own = [spec.candidate for spec in raced(14, pieces).specs if spec.group_id == "s1__desk__seed0"]
    assert own[:6] == [None] * 6
    assert len({each for each in own if each}) == MOST_ABREAST


@pytest.mark.parametrize("shares", [EVERY_GROUP, Trials(treated_micro=0, withheld_micro=0)])
def test_without_room_beside_the_controls_or_without_a_trial_no_further_sibling_tries_one(shares: Trials) -> None:
    pieces = tuple(TrialPiece(told("desk", text), 3) for text in ("Knock.", "Ring."))
    siblings = 4 if shares is EVERY_GROUP else 8
    tried = [spec for spec in raced(siblings, pieces, shares).specs if spec.candidate]
    assert len(tried) == (6 if shares is EVERY_GROUP else 0)
    assert len({spec.group_id for spec in tried}) == len(tried)


@given(
    siblings=st.integers(4, 12),
    least=st.integers(1, 12),
    count=st.integers(0, 9),
    controls=st.integers(1, 3),
    treated=st.integers(0, 1_000_000),
)
@example(siblings=4, least=4, count=2, controls=1, treated=74_598)  # a trial that stood before a plain sibling
def test_siblings_that_no_trial_is_compared_with_are_left_out_and_every_trial_keeps_its_controls(
    siblings: int, least: int, count: int, controls: int, treated: int
) -> None:
    tried = tuple(TrialPiece(told("desk", f"Knock {number} times."), controls) for number in range(count))
    promoted = (TrialPiece(told("desk", "Ring."), 3), TrialPiece(told("mail", "Ring."), 1))
    shares = Trials(treated_micro=treated, withheld_micro=1_000_000 - treated)
    before = raced(siblings, tried, shares, promoted)
    after = drop_idle(before, (*tried, *promoted), least)
    for group in {spec.group_id for spec in before.specs}:
        own, left = ([spec for spec in each.specs if spec.group_id == group] for each in (before, after))
        trials, plain = [_trial(spec) for spec in own if not spec.is_plain], [spec for spec in left if spec.is_plain]
        assert [_trial(spec) for spec in left if not spec.is_plain] == trials
        needed = max((controls if candidate else 3 if "desk" in group else 1 for candidate, _ in trials), default=0)
        assert [spec.spec_id for spec in left] == [spec.spec_id for spec in own[: len(left)]]
        assert plain == left[: len(plain)]
        assert len(left) == min(siblings, max(least, needed + len(trials)))
        assert len(plain) >= min(needed, siblings - len(trials))


def _trial(spec: Spec) -> tuple[str | None, str | None]:
    return spec.candidate, spec.withheld


def test_a_group_that_withholds_or_tries_nothing_is_as_large_as_without_candidates_abreast() -> None:
    pieces = tuple(TrialPiece(told("desk", f"Knock {number} times."), 3) for number in range(8))
    shares = Trials(treated_micro=500_000, withheld_micro=500_000)
    promoted = (TrialPiece(told("desk", "Ring."), 3),)
    planned = drop_idle(raced(11, pieces, shares, promoted), (*pieces, *promoted), 4)
    sizes = {
        (bool(candidates), len(own))
        for group in {spec.group_id for spec in planned.specs}
        for own in [[spec for spec in planned.specs if spec.group_id == group]]
        for candidates in [[spec for spec in own if spec.candidate]]
    }
    assert sizes == {(True, 11), (False, 4)}


def test_each_of_several_candidates_of_a_group_is_compared_with_the_same_controls() -> None:
    store, pieces = a_store(), tuple(told("desk", text) for text in ("Knock.", "Ring."))
    for each in pieces:
        recorded = HintRecorded(
            hint=each.piece,
            occasion=each.occasion,
            content=ZERO,
            rule=PairedRule(),
            run=None,
            source="recovery",
            confidence=500_000,
        )
        add(store, f"hint/{each.piece}", recorded)
    planned = raced(5, tuple(TrialPiece(each, 3) for each in pieces))
    own = [spec for spec in planned.specs if spec.template == "desk"]
    carried = {spec.spec_id: (spec.candidate,) if spec.candidate else () for spec in own}
    runs = {run: RunState(run=run, applied=applied) for run, applied in carried.items()}
    rewards = {run: RewardState(run=run, passed=True) for run in carried}
    appends = credits_of(own, Outcomes(runs, rewards, frozenset()), candidacies(views(store)), "test")
    tried = [event for append in appends for event in append.events if isinstance(event, PieceTried)]
    assert Counter(each.piece for each in tried) == dict.fromkeys((each.piece for each in pieces), 6)
    assert {each.control_runs for each in tried} == {
        tuple(f"s1__desk__seed{seed}__s{index}" for index in range(3)) for seed in range(6)
    }


def instruction(text: str, title: str = "", cluster: str = "desk") -> OccasionPiece:
    occasion = Occasion(environment=SITE, type="navigate", intent="", page="", cluster=cluster)
    return OccasionPiece(
        lesson_id("instruction", occasion, None, text), "instruction", occasion, None, text, title, 0, 0
    )


def test_an_instruction_is_tried_only_while_the_one_that_it_was_proposed_in_place_of_is_in_force() -> None:
    first, beside, other = instruction("Knock."), instruction("Ring."), instruction("Write.", cluster="mail")
    after = instruction("Knock twice.", first.piece)
    on_trial = tuple(TrialPiece(each, 3, trials=9) for each in (first, beside, other, after))
    fresh = TrialPool(on_trial).among(TASKS, SITE, READERS)
    assert fresh.names == {first.piece, beside.piece, other.piece}
    assert fresh.abreast == 2
    replaced = TrialPool(on_trial[1:], on_trial[:1]).among(TASKS, SITE, READERS)
    assert replaced.names == {other.piece, after.piece}
    assert replaced.abreast == 1
    deaf = TrialPool(on_trial[1:], on_trial[:1]).among(TASKS, SITE, Audience(BUDGET))
    assert deaf.names == frozenset()


@pytest.mark.parametrize(("budget", "is_withheld"), [(BUDGET, True), (BRIEF_BUDGET, False)])
def test_what_the_budget_leaves_out_cannot_be_withheld(budget: int, is_withheld: bool) -> None:
    long = tries(told("desk", f"a{'x' * 250}"), told("desk", f"b{'x' * 250}"))
    specs = treat(
        sweep(), TASKS, (), long, Trials(treated_micro=0, withheld_micro=1_000_000), 7, SITE, Audience(budget)
    )
    assert (len({spec.withheld for spec in specs if spec.withheld}) == 2) == is_withheld


def test_a_lesson_is_promoted_in_the_cluster_where_it_helps_and_not_where_it_harms() -> None:
    mine, its = told("desk"), told("mail")
    store = a_store()
    for each in (mine, its):
        recorded = HintRecorded(
            hint=each.piece,
            occasion=each.occasion,
            content=ZERO,
            rule=SeedsRule(),
            run=None,
            source="recovery",
            confidence=500_000,
        )
        add(store, f"hint/{each.piece}", recorded)
    specs = treat(sweep(), TASKS, tries(mine, its), (), EVERY_GROUP, 7, SITE, READERS)
    passed = {spec.spec_id: (spec.candidate is None) == (spec.template == "mail") for spec in specs}
    carried = {spec.spec_id: (spec.candidate,) if spec.candidate else () for spec in specs}
    runs = {run: RunState(run=run, applied=applied) for run, applied in carried.items()}
    rewards = {run: RewardState(run=run, passed=won) for run, won in passed.items()}
    appends = credits_of(specs, Outcomes(runs, rewards, frozenset()), candidacies(views(store)), "test")
    assert all(isinstance(event, PieceTried) for append in appends for event in append.events)
    store.append(list(appends))
    states = candidacies(views(store))
    assert (states[mine.piece].status, states[mine.piece].wins) == ("promoted", 6)
    assert (states[its.piece].status, states[its.piece].losses) == ("candidate", 6)


def test_a_skill_is_tried_and_withheld_where_skills_are_offered_and_nowhere_else() -> None:
    occasion = Occasion(environment=SITE, type="navigate", intent="Knock.", page="", cluster="desk")
    knock = OccasionPiece("sk-1", "skill", occasion, None, "# Knock\n\nKnock first.", "knock", 0, 0)
    withheld = Trials(treated_micro=0, withheld_micro=1_000_000)
    for audience, drawn in ((Audience(skills=1), {("desk", "sk-1")}), (READERS, set()), (None, set())):
        tried = treat(sweep(), TASKS, tries(knock), (), EVERY_GROUP, 7, SITE, audience)
        left_out = treat(sweep(), TASKS, (), tries(knock), withheld, 7, SITE, audience)
        assert {(spec.template, spec.candidate) for spec in tried if not spec.is_plain} == drawn
        assert {(spec.template, spec.withheld) for spec in left_out if not spec.is_plain} == drawn
