"""Courses: the last one of each loop on a site, and what it has set aside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from eventlog.events import CourseLoop
from projections.courses import COURSES, CourseState, course_key
from projections.engine.views import Views
from projections.memories import candidacies

from .facts import find_state
from .history import Since, page_history
from .paging import page_after

_REASONS: Final[Mapping[str, str]] = {
    "other_ended": "the other loop had ended",
    "no_base": "the slow loop had no base model",
    "untried": "it had not had a turn",
    "worth": "it was worth more for its cost",
}
"""What each reason of a choice between both loops says."""


class CoursePage(msgspec.Struct, frozen=True, kw_only=True):
    """The last course of each loop and site, in order of place; `next` is the place to continue after, or null."""

    courses: tuple[CourseState, ...]
    next: str | None


class CourseAnswer(msgspec.Struct, frozen=True):
    """The last course of a loop on a site, and what happened to its courses there, oldest first.

    `next` is the position to continue after, null where no more follow.
    """

    course: CourseState
    history: tuple[Since[CourseState], ...]
    next: int | None


def list_courses(views: Views, *, after: str | None = None, limit: int | None = None) -> CoursePage:
    """A page of the last courses; the place of a course is its loop and its site, such as `fast/shop`."""
    page, following = page_after(views, COURSES, after, limit)
    return CoursePage(courses=tuple(page.values()), next=following)


def show_course(
    views: Views, site: str, loop: CourseLoop = "fast", *, after: int = 0, limit: int | None = None
) -> CourseAnswer:
    """The last course of a loop on a site, and a page of its history. Raises Unknown."""
    key = course_key(site, loop)
    state = find_state(views, COURSES, key, what="course", way_out="List them with GET /v1/courses.")
    history, following = page_history(views, COURSES, key, after=after, limit=limit)
    return CourseAnswer(course=state, history=history, next=following)


def describe_turn(course: CourseState) -> str:
    """The last turn that a course was given, and why; empty where loops have no turns."""
    if course.turn_reason is None:
        return ""
    why = _REASONS.get(course.turn_reason, course.turn_reason)
    return f"turn {course.turns}, chosen at {course.turn_since} because {why}"


def last_course(views: Views, site: str, loop: CourseLoop = "fast") -> CourseState | None:
    """The last course of a loop on a site, open or closed; None where none was opened."""
    return views.get(COURSES, course_key(site, loop))


def present_course(views: Views, site: str, loop: CourseLoop = "fast") -> CourseState | None:
    """The open course of a loop on a site; None where there is none."""
    state = last_course(views, site, loop)
    return state if state is not None and state.is_open else None


def pieces_retired_in_course(views: Views, site: str) -> frozenset[str]:
    """The pieces that were retired during the open course: no proposal brings them back until it ends.

    Otherwise a piece without effect would be proposed and tried again in every round.
    """
    state = present_course(views, site)
    if state is None:
        return frozenset()
    return frozenset(
        key
        for key, piece in candidacies(views).items()
        if piece.status == "retired" and piece.last_at >= state.opened_at
    )
