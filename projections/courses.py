"""Courses: the latest course of the controller for each environment and loop, with its budget and end."""

from __future__ import annotations

from msgspec.structs import replace

from .engine.projection import EventRow, Fold, FoldState


class CourseState(FoldState, frozen=True, kw_only=True):
    """A course. `since` is the position at which it was opened, `opened_at` the time in microseconds since 1970.

    `closed` is why it ended, `closed_since` at which position; None while it is open. A course that is opened again
    after its end goes on: it keeps its beginning, and `ended` counts its ends. `number` counts the courses of this
    environment and loop.

    Where both loops have turns, `turns` counts those that this course was given, `turn_since` is the position at which
    the last one was chosen, and `turn_reason` why; None where no turn was given.
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
    closed_since: int | None = None
    ended: int = 0
    turns: int = 0
    turn_since: int | None = None
    turn_reason: str | None = None

    @property
    def is_open(self) -> bool:
        """True if the course was opened and has not ended."""
        return self.number > 0 and self.closed is None


def course_key(environment: str, loop: str) -> str:
    """Key of a loop's latest course on an environment. The loop comes first: it has no slash, environments may."""
    return f"{loop}/{environment}"


def _open(state: CourseState, row: EventRow) -> CourseState:
    is_same = state.number > 0 and state.course == row.text("course")
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
        ended=state.ended if is_same else 0,
        turns=state.turns if is_same else 0,
        turn_since=state.turn_since if is_same else None,
        turn_reason=state.turn_reason if is_same else None,
    )


def _choose(state: CourseState, row: EventRow) -> CourseState:
    if not state.number or row.text(f"{state.loop}.course") != state.course:
        return state
    return replace(state, turns=state.turns + 1, turn_since=row.position, turn_reason=row.text("reason"))


def _fold(state: CourseState, row: EventRow) -> CourseState:
    if row.type == "CourseOpened":
        return _open(state, row)
    if row.type == "LoopChosen":
        return _choose(state, row)
    if not state.is_open or state.course != row.text("course"):
        return state
    return replace(state, closed=row.text("why"), closed_since=row.position, ended=state.ended + 1)


COURSES = Fold(
    name="courses",
    version=5,
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
        "CourseClosed": ("course", "environment", "loop", "why"),
        "LoopChosen": ("environment", "loop", "reason", "fast.course", "slow.course"),
    },
    initial=CourseState(),
    key=lambda row: course_key(row.text("environment"), row.text("loop")),
    fold=_fold,
)
