"""Courses: by environment, the last thing that the controller was asked to do there, and whether it is done."""

from __future__ import annotations

from msgspec.structs import replace

from .projection import Fold, Row, State


class CourseState(State, frozen=True, kw_only=True):
    """A course. `since` is the position it was opened at, `opened_at` when (microseconds since 1970).

    `closed` says why it ended; None: it goes on. `number` counts the courses of the environment.
    """

    course: str = ""
    environment: str = ""
    loop: str = ""
    number: int = 0
    since: int = 0
    opened_at: int = 0
    rounds: int = 0
    runs: int | None = None
    micro_dollars: int | None = None
    minutes: int | None = None
    verdicts: int | None = None
    closed: str | None = None

    @property
    def is_open(self) -> bool:
        """Whether it was opened and has not ended."""
        return self.number > 0 and self.closed is None


def _opened(state: CourseState, row: Row) -> CourseState:
    is_same = state.is_open and state.course == row.text("course")
    return CourseState(
        course=row.text("course"),
        environment=row.text("environment"),
        loop=row.text("loop"),
        number=state.number if is_same else state.number + 1,
        since=state.since if is_same else row.position,
        opened_at=state.opened_at if is_same else row.moment,
        rounds=row.number("budget.rounds"),
        runs=row.maybe_number("budget.runs"),
        micro_dollars=row.maybe_number("budget.micro_dollars"),
        minutes=row.maybe_number("budget.minutes"),
        verdicts=row.maybe_number("budget.verdicts"),
    )


def _fold(state: CourseState, row: Row) -> CourseState:
    if row.type == "CourseOpened":
        return _opened(state, row)
    if not state.is_open or state.course != row.text("course"):
        return state
    return replace(state, closed=row.text("why"))


COURSES = Fold(
    name="courses",
    version=1,
    reads={
        "CourseOpened": (
            "course",
            "environment",
            "loop",
            "budget.rounds",
            "budget.runs",
            "budget.micro_dollars",
            "budget.minutes",
            "budget.verdicts",
        ),
        "CourseClosed": ("course", "environment", "why"),
    },
    initial=CourseState(),
    key=lambda row: row.text("environment"),
    fold=_fold,
)
