"""Skills that passed runs wrote, as pieces of memory."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from agents.learning.written_skills import MOST_OF_A_CLUSTER, WrittenSkill, capture_skills
from eventlog.events import PairedRule, PieceProposed

SKILL = WrittenSkill("r1", "mail", 900_000, "mail", "How mail is sent.", "# Mail\n\nHow mail\0is sent.")
SEVERAL = [replace(SKILL, run=f"r{number}", text=f"# Mail\n\n{number % 5}") for number in range(9)]


def test_a_written_skill_becomes_a_proposal_for_its_cluster_with_its_whole_text() -> None:
    (piece,) = capture_skills("desk", [SKILL])
    event = piece.event(PairedRule())
    assert isinstance(event, PieceProposed)
    assert (event.piece, event.kind, event.title, event.run, event.source) == (
        piece.name,
        "skill",
        "mail",
        "r1",
        "good_run",
    )
    assert (event.occasion.environment, event.occasion.cluster) == ("desk", "mail")
    assert piece.text == "# Mail\n\nHow mail is sent."


def test_the_skill_that_most_runs_show_goes_first_and_only_so_many_are_proposed_of_a_cluster() -> None:
    found = capture_skills("desk", SEVERAL)
    assert len(found) == MOST_OF_A_CLUSTER
    assert {len(each.runs) for each in found} == {2}
    elsewhere = capture_skills("desk", [SKILL, replace(SKILL, cluster="phone")])
    assert len({each.name for each in elsewhere}) == 2


@given(st.permutations(SEVERAL))
def test_the_order_in_which_runs_are_read_does_not_matter(shown: list[WrittenSkill]) -> None:
    assert capture_skills("desk", shown) == capture_skills("desk", SEVERAL)
