"""Run both loops in sequence. The log says which loop is next, so a killed process resumes with that one."""

from __future__ import annotations

from projections.engine.views import Views

from ..course import Course
from ..history.disown import refuse_forged
from ..house import House
from ..locks import only_controller
from ..queries.courses import last_course, present_course
from .budgets import open_course
from .slow_next import SlowCourse


def begin_both(house: House, site: str, fast: Course, slow: SlowCourse) -> str | None:
    """Open or resume the courses of both loops. Returns why the fast loop ended, or None if it is still to run.

    The slow course is opened first: any fast course closed after that counts as the fast part. Raises ControllerBusy,
    ForgedEvents.
    """
    with only_controller(house, site) as own:
        refuse_forged(own.views())
        open_course(own.store, own.views(), site, slow)
        views = own.views()
        ended = fast_part_ended(views, site)
        if ended is None:
            open_course(own.store, views, site, fast)
        return ended


def fast_part_ended(views: Views, site: str) -> str | None:
    """Reason why the fast part has ended: its course was closed after the open slow course was opened.

    None: the fast part is next, from its beginning or from where it was interrupted.
    """
    fast, slow = last_course(views, site), present_course(views, site, "slow")
    if fast is None or slow is None or fast.closed_since is None or fast.closed_since < slow.since:
        return None
    return fast.closed
