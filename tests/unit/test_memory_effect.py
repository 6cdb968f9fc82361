from __future__ import annotations

import pytest

from agents.learning.memory_effect import is_same_for
from agents.learning.occasions import AnyPiece
from eventlog.events import Step
from tests.unit.test_agent_samples import OPEN, piece, template
from tests.unit.test_retrieval import SITE, lesson

ELSEWHERE = OPEN.model_copy(update={"intent": "open the inbox", "url": "/inbox"})
SEARCH = Step(type="submit", intent="search", label="Search")
TOLD = lesson(name="told", text="do it")


@pytest.mark.parametrize(
    ("held", "is_same"),
    [
        (piece("/new", ELSEWHERE), True),
        (piece("/new", OPEN), False),
        (TOLD, False),
        (lesson(name="told", text="do it", environment="helpdesk"), True),
    ],
)
def test_a_memory_that_changes_no_plan_and_tells_no_policy_anything_is_the_same_for_its_tasks(
    held: AnyPiece, is_same: bool
) -> None:
    tasks = [template("search", (SEARCH,)), template()]
    assert is_same_for(tasks, SITE, (), (held,)) == is_same
    assert is_same_for(tasks, SITE, (held,), (held,))


def test_more_wins_of_the_same_piece_change_no_run() -> None:
    assert is_same_for([template()], SITE, (piece("/new", wins=3),), (piece("/new", wins=4),))
