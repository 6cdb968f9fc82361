"""Courses: the last one of a loop on a site, and what it has set aside."""

from __future__ import annotations

from eventlog.events import CourseLoop
from projections.courses import COURSES, CourseState, course_key
from projections.engine.views import Views
from projections.memories import candidacies


def last_course(views: Views, site: str, loop: CourseLoop = "fast") -> CourseState | None:
    """The last course of a loop on a site, whether or not it has ended; None where none was opened."""
    return views.get(COURSES, course_key(site, loop))


def present_course(views: Views, site: str, loop: CourseLoop = "fast") -> CourseState | None:
    """The course of a loop that goes on on a site; None where none does."""
    state = last_course(views, site, loop)
    return state if state is not None and state.is_open else None


def pieces_retired_in_course(views: Views, site: str) -> frozenset[str]:
    """The pieces that were retired within the course that goes on: until it ends no proposal brings them back.

    Else what does nothing would be found and tried anew, round after round.
    """
    state = present_course(views, site)
    if state is None:
        return frozenset()
    return frozenset(
        key
        for key, piece in candidacies(views).items()
        if piece.status == "retired" and piece.last_at >= state.opened_at
    )
