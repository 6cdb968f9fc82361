"""Both loops in one project: courses are opened under the controller's lock, the fast part is gone through once."""

from __future__ import annotations

from functools import partial

import pytest

from api.cli.run import go_first
from api.controllers.both import begin_both
from api.controllers.budgets import close_course
from api.controllers.slow_next import SlowCourse
from api.course import Course
from api.errors import ControllerBusy
from api.house import House
from api.locks import only_controller
from api.queries.courses import present_course

SITE, SLOW = "marketplace", SlowCourse(stages=(), max_rounds=2)


def test_the_fast_part_is_gone_through_once_while_the_slow_course_is_open(
    empty_house: House, capsys: pytest.CaptureFixture[str]
) -> None:
    house, gone = empty_house, []

    def quickly(why: str | None) -> str:
        gone.append(why)
        if why is not None:
            close_course(house.store, house.views(), SITE, why)
        return str(why)

    for why in (None, "nothing to improve", "never"):
        go_first(house, SITE, Course(), SLOW, partial(quickly, why))
    assert gone == [None, "nothing to improve"]
    assert "ended: nothing to improve" in capsys.readouterr().err
    assert present_course(house.views(), SITE, "slow") is not None
    close_course(house.store, house.views(), SITE, "no round is left", "slow")
    go_first(house, SITE, Course(), SLOW, partial(quickly, "again"))
    assert gone == [None, "nothing to improve", "again"]
    opened = [each.event.course for each in house.store.read(types=["CourseOpened"])]  # type: ignore[union-attr]
    assert opened == [f"{SITE}-{name}" for name in ("slow-course-1", "course-1", "slow-course-2", "course-2")]


def test_while_another_controller_works_on_the_site_no_course_is_opened(empty_house: House) -> None:
    with only_controller(empty_house, SITE), pytest.raises(ControllerBusy):
        begin_both(empty_house, SITE, Course(), SLOW)
    assert list(empty_house.store.read(types=["CourseOpened"])) == []
