"""Which part of both loops is next, as the log says."""

from __future__ import annotations

from typing import Literal

import pytest

from api.controllers.both import fast_part_ended
from api.controllers.budgets import close_course, open_course
from api.controllers.slow_next import SlowCourse
from api.course import Course
from tests.unit.test_agent_samples import a_store, views

SITE = "marketplace"
SLOW = SlowCourse(stages=())
Fact = Literal["slow", "fast", "slow ends", "fast ends"]


def ended_after(*facts: Fact) -> str | None:
    """Why the fast part has ended after these courses were opened and closed."""
    store = a_store()
    for number, fact in enumerate(facts):
        match fact:
            case "slow" | "fast":
                open_course(store, views(store), SITE, SLOW if fact == "slow" else Course())
            case "slow ends":
                close_course(store, views(store), SITE, f"slow {number}", "slow")
            case "fast ends":
                close_course(store, views(store), SITE, f"fast {number}")
    return fast_part_ended(views(store), SITE)


@pytest.mark.parametrize(
    "facts",
    [
        (),
        ("fast", "fast ends"),
        ("slow",),
        ("slow", "fast"),
        ("fast", "fast ends", "slow"),
        ("slow", "fast", "fast ends", "slow ends"),
        ("slow", "fast", "fast ends", "slow ends", "slow"),
        ("slow", "fast", "fast ends", "fast"),
    ],
    ids="-".join,
)
def test_the_fast_part_is_next_unless_it_ended_since_the_slow_course_that_goes_on_was_opened(
    facts: tuple[Fact, ...],
) -> None:
    assert ended_after(*facts) is None


def test_who_was_killed_in_the_slow_part_goes_on_there() -> None:
    assert ended_after("slow", "fast", "fast ends") == "fast 2"


def test_a_fast_course_that_was_interrupted_before_both_were_asked_for_is_their_fast_part() -> None:
    assert ended_after("fast", "slow", "fast ends") == "fast 2"


def test_another_site_says_nothing() -> None:
    store = a_store()
    open_course(store, views(store), SITE, SLOW)
    open_course(store, views(store), "helpdesk", Course())
    close_course(store, views(store), "helpdesk", "done")
    assert fast_part_ended(views(store), SITE) is None
