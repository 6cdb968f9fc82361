"""Courses: the controller's loops on an environment, each with a budget and an end."""

from __future__ import annotations

from typing import ClassVar, Literal

from .event import Count, Event, FrozenModel, Name

CourseLoop = Literal["fast", "slow"]
"""The loop that a course runs. An environment has at most one open course of each loop."""


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

    A further event of the same course replaces its budget; what it has spent so far still counts.
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
