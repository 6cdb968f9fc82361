"""Trials of lessons in words: only where they are told, and each cluster has evidence of its own."""

from __future__ import annotations

import pytest

from agents.learning.advice import BRIEF_BUDGET, BUDGET, READERS, Audience
from agents.learning.occasions import OccasionPiece, lesson_id
from agents.learning.trial_results import Outcomes, credits_of
from agents.rollouts.sweep import SeedSweep
from agents.rollouts.trials import TrialPiece, treat, would_use
from eventlog.events import HintRecorded, Occasion, PieceTried, SeedsRule, Spec, Trials
from projections.memories import candidacies
from projections.rewards import RewardState
from projections.runs import RunState
from tests.unit.test_agent_samples import EVERY_GROUP, ZERO, a_store, add, piece, template, views
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
