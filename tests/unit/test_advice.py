from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.learning.advice import (
    BRIEF_BUDGET,
    MOST,
    READERS,
    Audience,
    advice_lines,
    advice_paragraph,
    applied_of,
    notes_paragraphs,
    reading_audience,
    skills_told,
    tell_trial,
    worth_telling,
)
from agents.learning.guidance import LONGEST_GUIDANCE, guidance_budget, guidance_text
from agents.learning.occasions import OccasionPiece, fits, lesson_id
from eventlog.events import Applied, Occasion, PieceKind
from tests.unit.test_agent_samples import template
from tests.unit.test_retrieval import ENGINE, PLAN, SITE, lesson

TASK = template().model_copy(update={"instruction": "Show the phone number of the cheapest boat of a dealer."})
NEAR = lesson(name="near", text="To show the phone number of a boat, ask its dealer first.")
FAR = lesson(name="far", text="A dealer\n has papers.")
FOREIGN = lesson(name="foreign", text=NEAR.text, environment="helpdesk")
IDLE = lesson(name="idle", text="Merge tickets.")


def named(*held: OccasionPiece) -> list[str]:
    return [each.piece for each in worth_telling(TASK, SITE, held)]


def test_what_shares_most_with_the_task_is_told_first_and_what_shares_nothing_not_at_all() -> None:
    assert named(IDLE, FAR, FOREIGN, NEAR) == ["near", "far"]
    assert named() == named(IDLE, FOREIGN) == []


@pytest.mark.parametrize("kind", ["snippet", "recipe"])
def test_steps_to_put_in_are_no_advice(kind: PieceKind) -> None:
    assert named(lesson(name="steps", kind=kind, text=NEAR.text)) == []
    assert named(lesson(name="exemplar", kind="exemplar", text=NEAR.text)) == ["exemplar"]


def test_of_what_shares_alike_the_higher_rank_goes_first_then_more_wins_then_the_id() -> None:
    alike = [
        lesson(name=name, text=NEAR.text, rank=rank, wins=wins)
        for name, rank, wins in (("d", 1, 0), ("c", 1, 0), ("b", 1, 2), ("a", 2, 0))
    ]
    assert named(*alike) == ["a", "b", "c", "d"]


@given(st.permutations([lesson(name=f"l{number}", text=f"{NEAR.text} {number}") for number in range(MOST + 3)]))
def test_the_order_of_memory_does_not_matter_and_only_so_many_are_told(held: list[OccasionPiece]) -> None:
    assert named(*held) == [f"l{number}" for number in range(MOST)]


def test_each_is_a_line_and_is_recorded_in_the_order_of_the_lines() -> None:
    told = worth_telling(TASK, SITE, [FAR, NEAR])
    assert advice_lines(told) == (NEAR.text, "A dealer has papers.")
    assert applied_of(told) == (
        Applied(piece="near", kind="hint", step=0),
        Applied(piece="far", kind="hint", step=1),
    )


def in_words(text: str, kind: PieceKind = "recipe", cluster: str | None = "c", wins: int = 0) -> OccasionPiece:
    occasion = Occasion(environment=SITE, type="click", intent=TASK.instruction, page="", cluster=cluster)
    return OccasionPiece(lesson_id(kind, occasion, None, text), kind, occasion, None, text, "", wins, 0)


@pytest.mark.parametrize("kind", ["hint", "exemplar", "snippet", "recipe"])
def test_a_lesson_in_words_of_any_kind_is_told_in_its_cluster_alone_and_fits_no_plan(kind: PieceKind) -> None:
    piece = in_words("Ask first.", kind)
    assert named(piece) == [piece.piece]
    assert named(in_words("Ask first.", kind, None)) != []
    assert named(in_words("Ask first.", kind, "another")) == []
    assert not any(fits(piece, SITE, PLAN, place) for place in range(len(PLAN)))
    with pytest.raises(ValueError, match=piece.piece):
        piece.at((ENGINE,), 0)


@pytest.mark.parametrize("kind", ["skill", "instruction"])
def test_a_text_that_is_given_whole_is_no_line_of_advice(kind: PieceKind) -> None:
    piece = in_words("Ask first.", kind)
    assert not piece.is_in_words
    assert advice_lines(worth_telling(TASK, SITE, [piece], Audience(skills=1, guidance=100))) == ()
    assert not any(fits(piece, SITE, PLAN, place) for place in range(len(PLAN)))


def test_a_lesson_is_another_one_in_another_cluster_and_with_other_words() -> None:
    names = {in_words("Ask.").piece, in_words("Ask.", cluster="d").piece, in_words("Look.").piece}
    assert len(names) == 3
    assert in_words("Ask.").piece == in_words("Ask.").piece


def test_what_does_not_fit_into_the_budget_is_left_out_and_smaller_ones_are_told() -> None:
    long, short = in_words("x" * 200, wins=2), in_words("Ask.", wins=1)
    assert [each.piece for each in worth_telling(TASK, SITE, [long, short], Audience(100))] == [short.piece]
    assert [each.piece for each in worth_telling(TASK, SITE, [long, short], Audience(300))] == [long.piece, short.piece]


def test_a_treated_run_is_told_what_its_siblings_are_and_the_candidate_last() -> None:
    memory = [in_words(f"Ask {number}.", wins=9) for number in range(MOST + 2)]
    plain = tell_trial(TASK, SITE, memory)
    treated = tell_trial(TASK, SITE, memory, candidate=(new := in_words("Look.")))
    assert treated == (*plain, new)
    assert len(plain) == MOST
    assert tell_trial(TASK, SITE, memory, candidate=in_words("Look.", cluster="d")) == plain


def test_a_withheld_piece_is_missed_by_its_run_and_nothing_takes_its_place() -> None:
    memory = [in_words(f"Ask {number}.", wins=9 - number) for number in range(MOST + 2)]
    plain = tell_trial(TASK, SITE, memory)
    gone = plain[1]
    others = [each for each in memory if each is not gone]
    assert tell_trial(TASK, SITE, others, withheld=gone) == tuple(each for each in plain if each is not gone)


def skill(name: str, text: str, cluster: str | None = "c", rank: int = 0) -> OccasionPiece:
    occasion = Occasion(environment=SITE, type="navigate", intent="A line.", page="", cluster=cluster)
    return OccasionPiece(lesson_id("skill", occasion, None, text), "skill", occasion, None, text, name, 0, rank)


WORKERS = Audience(skills=2)


def test_skills_are_offered_whole_after_the_lines_to_those_who_take_them_and_to_nobody_else() -> None:
    ask, phones = in_words("Ask first."), skill("phones", "# Phones\n\nShow the phone number of a dealer.")
    told = worth_telling(TASK, SITE, [phones, ask], WORKERS)
    assert told == (ask, phones)
    assert advice_lines(told) == ("Ask first.",)
    assert skills_told(told) == (phones.text,)
    assert applied_of(told)[1] == Applied(piece=phones.piece, kind="skill", step=1)
    assert named(phones, ask) == [ask.piece]


def test_skills_are_offered_in_their_cluster_one_of_each_name_and_those_first_that_share_most() -> None:
    near, far = skill("near", "Show the phone number of a dealer."), skill("far", "Papers.", rank=9)
    worse, elsewhere = skill("near", "Something else.", rank=5), skill("other", near.text, "d")
    assert worth_telling(TASK, SITE, [worse, elsewhere, far, near], WORKERS) == (near, far)
    assert worth_telling(TASK, SITE, [far, skill("a", "Ink.", rank=8), near], WORKERS) == (near, far)


def test_a_candidate_takes_the_place_of_the_skill_of_its_name_and_is_beyond_the_most() -> None:
    memory = [skill("a", "Papers."), skill("b", "Boats.")]
    new, better = skill("c", "Engines."), skill("a", "Papers and more.")
    plain = tell_trial(TASK, SITE, memory, WORKERS)
    assert tell_trial(TASK, SITE, memory, WORKERS, candidate=new) == (*plain, new)
    assert tell_trial(TASK, SITE, memory, WORKERS, candidate=better) == (memory[1], better)
    assert tell_trial(TASK, SITE, memory, READERS, candidate=new) == ()
    assert tell_trial(TASK, SITE, memory[1:], WORKERS, withheld=memory[0]) == (memory[1],)


def instruct(text: str, replaces: str = "", cluster: str = "c", rank: int = 0) -> OccasionPiece:
    occasion = Occasion(environment=SITE, type="navigate", intent="", page="", cluster=cluster)
    name = lesson_id("instruction", occasion, None, text)
    return OccasionPiece(name, "instruction", occasion, None, text, replaces, 0, rank)


BRIEF = reading_audience(BRIEF_BUDGET)
FIRST = instruct("Look at the first page.", rank=9)
SECOND = instruct("Look at the first page, then at the news.", FIRST.piece)


@given(st.permutations([FIRST, SECOND, instruct("Of others.", cluster="d"), NEAR]))
def test_the_last_instruction_of_a_chain_is_given_beside_the_lines_and_is_none_of_them(
    held: list[OccasionPiece],
) -> None:
    told = worth_telling(TASK, SITE, held)
    assert [each.piece for each in told] == [NEAR.piece, SECOND.piece]
    assert (guidance_text(told), advice_lines(told)) == (SECOND.text, (NEAR.text,))
    assert applied_of(told)[1] == Applied(piece=SECOND.piece, kind="instruction", step=1)
    assert worth_telling(TASK, SITE, held, WORKERS) == (NEAR,)


def test_of_instructions_that_replace_nothing_that_is_held_the_higher_rank_is_in_force() -> None:
    one, other = instruct("Look twice.", "gone", rank=1), instruct("Look once.", "gone", rank=1)
    assert named(FIRST, one) == [FIRST.piece]
    assert named(one, other) == [min(one.piece, other.piece)]


def test_two_instructions_that_replace_one_another_end_in_one() -> None:
    one = instruct("Look.")
    other = instruct("Read.", one.piece)
    circle = OccasionPiece(one.piece, one.kind, one.occasion, None, one.text, other.piece, 0, 0)
    assert len(named(circle, other)) == 1


def test_an_instruction_has_a_budget_of_its_own_and_takes_none_from_the_lines() -> None:
    long = instruct("x" * 400)
    assert named(long, NEAR) == [NEAR.piece, long.piece]
    assert [each.piece for each in worth_telling(TASK, SITE, [long, NEAR], BRIEF)] == [NEAR.piece]
    short = instruct("x" * guidance_budget(BRIEF_BUDGET))
    assert [each.piece for each in worth_telling(TASK, SITE, [short, NEAR], BRIEF)] == [NEAR.piece, short.piece]


def test_an_instruction_on_trial_takes_the_place_of_the_one_in_force_and_of_nothing_else() -> None:
    memory = [FIRST, NEAR]
    plain = tell_trial(TASK, SITE, memory)
    assert tell_trial(TASK, SITE, memory, candidate=SECOND) == (NEAR, SECOND)
    assert tell_trial(TASK, SITE, [NEAR], candidate=SECOND) == (NEAR, SECOND)
    assert tell_trial(TASK, SITE, memory, candidate=instruct("Of others.", cluster="d")) == plain
    long = instruct("x" * 400)
    assert tell_trial(TASK, SITE, memory, BRIEF, candidate=long) == tell_trial(TASK, SITE, memory, BRIEF)


def test_without_its_instruction_a_run_is_given_none_not_even_the_one_before() -> None:
    assert tell_trial(TASK, SITE, [FIRST, NEAR], withheld=SECOND) == (NEAR,)


def test_what_is_told_for_one_prompt_is_the_instruction_and_then_the_lines_each_quoted() -> None:
    lines = ("Ask first.",)
    assert notes_paragraphs("", lines) == advice_paragraph(lines)
    assert notes_paragraphs("", ()) == ""
    said = notes_paragraphs("Look.", lines)
    assert said.endswith(advice_paragraph(lines))
    assert "“Look.”\n\n" in said
    assert "the task says and nothing else" in said
    assert len(instruct("x" * 700).text) > LONGEST_GUIDANCE >= len(guidance_text([instruct("x" * 700)]))
