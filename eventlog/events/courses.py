"""Courses: what the controller was asked to do on a site, within which budget, and how it ended."""

from __future__ import annotations

from typing import ClassVar, Literal

from .event import Count, Event, FrozenModel, Name

CourseLoop = Literal["fast", "slow"]
"""Which loop a course goes round; a site has one course of each."""


class Budget(FrozenModel):
    """What a course may spend; None is no bound. Rounds are sweeps, runs are those of sweeps and of arms.

    Minutes go by since the course was opened, whether or not anybody works on it. The slow loop counts all the rounds
    that it ever made on the site.
    """

    rounds: Count
    runs: Count | None
    micro_dollars: Count | None
    minutes: Count | None
    verdicts: Count | None


class CourseOpened(Event):
    """The controller goes round a loop from here on, until the budget is spent or nothing is left to try.

    A further event of the same course gives it another budget; what was spent stays spent.
    """

    type: Literal["CourseOpened"] = "CourseOpened"
    course: Name
    environment: Name
    loop: CourseLoop
    budget: Budget


class CourseClosed(Event):
    """A course ended, and why. One without it was interrupted, and whoever runs the controller next goes on with it."""

    schema_version: ClassVar[int] = 2
    type: Literal["CourseClosed"] = "CourseClosed"
    course: Name
    environment: Name
    loop: CourseLoop
    why: str
