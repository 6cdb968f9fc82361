from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.learning.advice import MOST, advice_lines, applied_of, worth_telling
from agents.learning.occasions import OccasionPiece
from eventlog.events import Applied, PieceKind
from tests.unit.test_retrieval import SITE, lesson

TASK = "Show the phone number of the cheapest boat of a dealer."
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
