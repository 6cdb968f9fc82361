"""Courses: the controller's loops on an environment, each with a budget and an end."""

from __future__ import annotations

from typing import ClassVar, Literal

from .event import Count, Event, FrozenModel, Name, ScoreMicro

CourseLoop = Literal["fast", "slow"]
"""The loop that a course runs. An environment has at most one open course of each loop."""


LoopReason = Literal["other_ended", "no_base", "untried", "worth"]
"""Why a loop plays: the other one has ended; the slow one has no base model; it is untried; it is worth most."""


class Budget(FrozenModel):
    """The limits of a course; None means unlimited. A round is a sweep; runs are those of sweeps and evaluation arms.

    Minutes are wall time since the course was opened, including idle time. The slow loop counts all rounds it ever made
    on the environment.
    """

    rounds: Count
    runs: Count | None
    micro_dollars: Count | None
    minutes: Count | None
    verdicts: Count | None


class CourseOpened(Event):
    """The controller started a course, which runs until the budget is spent or nothing is left to try.

    A further event of the same course replaces its budget, and opens it again if it was closed last; what it has spent
    so far still counts.
    """

    type: Literal["CourseOpened"] = "CourseOpened"
    course: Name
    environment: Name
    loop: CourseLoop
    budget: Budget


class CourseClosed(Event):
    """A course ended, and why. A course without this event is open: the next run of the controller resumes it."""

    schema_version: ClassVar[int] = 2
    type: Literal["CourseClosed"] = "CourseClosed"
    course: Name
    environment: Name
    loop: CourseLoop
    why: str


class LoopRecord(FrozenModel):
    """What the turns of a loop have brought so far: `gain` in millionths of mean score, `cost` in micro-dollars.

    In the `recent_` sums a turn counts for the `keep` of the choice times the one after it.
    """

    course: Name
    turns: Count
    cost: Count
    recent_gain: Count
    recent_cost: Count


class LoopChosen(Event):
    """Of both loops on an environment this one has the next turn: it plays until it would begin a second round.

    `fast` and `slow` are the records that the choice was made from. A loop is worth its recent gain for its recent
    cost, and `optimism` (in millionths of mean score) for all that it has cost.
    """

    type: Literal["LoopChosen"] = "LoopChosen"
    environment: Name
    loop: CourseLoop
    reason: LoopReason
    fast: LoopRecord
    slow: LoopRecord
    optimism: ScoreMicro
    keep: ScoreMicro
