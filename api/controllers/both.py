"""Both loops, one after the other: the log says which part is next, so who was killed goes on with that one."""

from __future__ import annotations

from projections.engine.views import Views

from ..course import Course
from ..house import House
from ..locks import only_controller
from ..queries.courses import last_course, present_course
from .budgets import open_course
from .slow_next import SlowCourse


def begin_both(house: House, site: str, fast: Course, slow: SlowCourse) -> str | None:
    """Open the courses of both loops, or go on with those that were interrupted; why the fast one has ended, if it has.

    The slow one is opened before anything is done: a fast course that was closed since is the fast part, whoever ran
    it. Raises ControllerBusy.
    """
    with only_controller(house.engine, site):
        open_course(house.store, house.views(), site, slow)
        views = house.views()
        ended = fast_part_ended(views, site)
        if ended is None:
            open_course(house.store, views, site, fast)
        return ended


def fast_part_ended(views: Views, site: str) -> str | None:
    """Why the fast part of both loops has ended: its course was closed since the slow one that goes on was opened.

    None: the fast part is next, from its beginning or from where it was interrupted.
    """
    fast, slow = last_course(views, site), present_course(views, site, "slow")
    if fast is None or slow is None or fast.closed_since is None or fast.closed_since < slow.since:
        return None
    return fast.closed
