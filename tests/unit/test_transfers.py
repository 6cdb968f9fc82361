"""Lessons in other places than where they were learned: where they are tried, and where they are promoted."""

from __future__ import annotations

import random
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from agents.learning.advice import READERS, worth_telling
from agents.learning.capture import Captured
from agents.learning.occasions import OccasionPiece, lesson_id
from agents.learning.ranking import word_share
from agents.learning.transfer import LEAST_SHARE, LEAST_SHARE_ELSEWHERE, transfer
from agents.learning.trial_results import Outcomes, credits_of
from agents.rollouts.sweep import SeedSweep
from agents.rollouts.trials import TrialPiece, treat
from eventlog.events import Occasion, PairedRule, PieceKind, Template
from projections.memories import candidacies
from projections.rewards import RewardState
from projections.runs import RunState
from tests.unit.test_agent_samples import EVERY_GROUP, a_store, add, template, views

SITES, CLUSTERS = ("clinic", "library"), ("desk", "mail", "news")
WORDS = ("ask", "dentist", "letter", "open", "page", "send")
TEXTS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4, unique=True).map(" ".join)


def lesson(site: str, cluster: str, text: str, kind: PieceKind = "hint", wins: int = 0) -> OccasionPiece:
    occasion = Occasion(environment=site, type="click", intent="", page="", cluster=cluster)
    return OccasionPiece(lesson_id(kind, occasion, None, text), kind, occasion, None, text, "", wins, 500_000)


def task(cluster: str, text: str) -> Template:
    return template(f"t-{cluster}").model_copy(update={"cluster": cluster, "instruction": text})


LESSONS = st.lists(
    st.builds(
        lesson,
        st.sampled_from(SITES),
        st.sampled_from(CLUSTERS),
        TEXTS,
        st.sampled_from(["hint", "recipe", "instruction"]),
        st.integers(0, 9),
    ),
    max_size=6,
    unique_by=lambda each: each.piece,
)
TASKS = st.dictionaries(st.sampled_from(CLUSTERS), TEXTS, max_size=3).map(
    lambda found: [task(cluster, text) for cluster, text in found.items()]
)


@given(LESSONS, TASKS, st.randoms(use_true_random=False))
def test_a_copy_is_of_the_failing_tasks_place_is_told_there_alone_and_shares_enough_words(
    held: list[OccasionPiece], failing: list[Template], rng: random.Random
) -> None:
    runs = {each.template_id: f"run-{each.template_id}" for each in failing}
    copies = transfer("clinic", held, failing, runs)
    assert len(copies) <= len(failing)
    for copy in copies:
        (own,) = [each for each in failing if each.cluster == copy.occasion.cluster]
        piece = as_piece(copy)
        assert (copy.occasion.environment, copy.runs) == ("clinic", (runs[own.template_id],))
        assert copy.name not in {each.piece for each in held}
        assert worth_telling(own, "clinic", [piece]) == (piece,)
        elsewhere = [task(cluster, own.instruction) for cluster in CLUSTERS if cluster != own.cluster]
        assert not any(worth_telling(each, "clinic", [piece]) for each in elsewhere)
        assert worth_telling(own, "library", [piece]) == ()
        sources = [each for each in held if (each.text, each.kind) == (copy.text, copy.kind)]
        assert any(_may_teach(each, own) for each in sources)
    for own in failing:
        if any(_may_teach(each, own) for each in held):
            assert any(copy.occasion.cluster == own.cluster for copy in copies)
    shuffled = [*held]
    rng.shuffle(shuffled)
    assert transfer("clinic", shuffled, failing[::-1], runs) == copies


def _may_teach(each: OccasionPiece, own: Template) -> bool:
    share, is_here = word_share(own.instruction, each.words), each.occasion.environment == "clinic"
    if each.kind == "instruction" or (is_here and each.occasion.cluster == own.cluster):
        return False
    return share >= (LEAST_SHARE if is_here else LEAST_SHARE_ELSEWHERE)


def as_piece(copy: Captured) -> OccasionPiece:
    return OccasionPiece(copy.name, copy.kind, copy.occasion, None, copy.text, copy.title, 0, 500_000)


def test_a_lesson_of_the_site_goes_before_one_of_another_that_shares_more() -> None:
    near, far = lesson("clinic", "mail", "ask page"), lesson("library", "mail", "ask dentist letter page")
    failing = [task("desk", "ask dentist letter page")]
    runs = {"t-desk": "r"}
    assert [each.text for each in transfer("clinic", [near, far], failing, runs)] == ["ask page"]
    assert [each.text for each in transfer("clinic", [far], failing, runs)] == [far.text]
    assert transfer("clinic", [lesson("library", "mail", "ask")], failing, runs) == ()


@given(
    st.fixed_dictionaries({place: st.sampled_from([-1, 0, 1]) for place in CLUSTERS}),
    st.integers(0, 10_000),
)
def test_of_the_copies_of_one_lesson_those_are_promoted_that_help_where_they_are(
    effects: Mapping[str, int], rng_seed: int
) -> None:
    """A copy helps (1), does nothing (0) or harms (-1) in its cluster; a quarter of the plain runs pass."""
    tasks = [task(cluster, "ask dentist") for cluster in CLUSTERS]
    runs = {each.template_id: "run" for each in tasks}
    copies = {
        copy.occasion.cluster: copy for copy in transfer("clinic", [lesson("library", "x", "ask dentist")], tasks, runs)
    }
    assert set(copies) == set(CLUSTERS)
    store = a_store()
    for copy in copies.values():
        add(store, f"hint/{copy.name}", copy.event(PairedRule()))
    tries = [TrialPiece(as_piece(copy), 3) for copy in copies.values()]
    specs = treat(
        SeedSweep("s", tasks, range(30), 4).specs(), tasks, tries, (), EVERY_GROUP, rng_seed, "clinic", READERS
    )
    rng = random.Random(rng_seed)  # noqa: S311 (a test's draws)
    passed = {}
    for spec in specs:
        effect = effects[spec.template.removeprefix("t-")] if spec.candidate else 0
        passed[spec.spec_id] = rng.random() < 0.25 if effect == 0 else effect > 0
    carried = {spec.spec_id: (spec.candidate,) if spec.candidate else () for spec in specs}
    states = {run: RunState(run=run, applied=applied) for run, applied in carried.items()}
    rewards = {run: RewardState(run=run, passed=won) for run, won in passed.items()}
    store.append(list(credits_of(specs, Outcomes(states, rewards, frozenset()), candidacies(views(store)), "test")))
    found = candidacies(views(store))
    for cluster, effect in effects.items():
        state = found[copies[cluster].name]
        assert state.treated.k > 0
        if effect > 0:
            assert state.status == "promoted"
        elif effect < 0:
            assert state.status != "promoted"


def test_after_the_best_lesson_was_tried_the_next_one_is_and_one_on_trial_keeps_its_turn() -> None:
    first, second = lesson("clinic", "mail", "ask dentist letter"), lesson("clinic", "mail", "ask dentist")
    failing, runs = [task("desk", "ask dentist letter")], {"t-desk": "run-1"}
    (best,) = transfer("clinic", [first, second], failing, runs)
    assert best.text == first.text
    assert transfer("clinic", [first, second], failing, runs, ()) == (best,)
    (after,) = transfer("clinic", [first, second], failing, runs, {best.name})
    assert after.text == second.text
    assert transfer("clinic", [first, second], failing, runs, {best.name, after.name}) == (best,)
