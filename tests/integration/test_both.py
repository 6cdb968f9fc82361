"""Both loops in one project go by turns: courses are opened and choices made under the controller's lock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import count
from typing import Any

import pytest

from agents.learning.memory import forget_everything
from api.controllers.both import BothLoops, Play
from api.controllers.budgets import close_course, open_course
from api.controllers.slow_next import SlowCourse
from api.course import CONTROLLER, SLOW_CONTROLLER, Course
from api.errors import ControllerBusy
from api.house import House
from api.locks import only_controller
from api.queries.courses import last_course, present_course
from eventlog.events import ChampionPointed, CourseLoop, LoopChosen
from eventlog.store import Append
from tests.golden.test_golden_samples import sample

SITE, SLOW = "marketplace", SlowCourse(stages=(), max_rounds=2)


class Killed(Exception):
    """The process was killed here."""


@dataclass
class Playing:
    """Players that plan a sweep a turn, end after so many, and are killed at some of the places that they pass."""

    house: House
    rounds: dict[str, int]
    deaths: set[int] = field(default_factory=set)
    places: Iterator[int] = field(default_factory=count)
    said: list[str] = field(default_factory=list)
    promotes: bool = False

    def both(self, **options: Any) -> BothLoops:
        return BothLoops(self.house, SITE, Course(), SLOW, self.said.append, **options)

    def players(self) -> dict[CourseLoop, Play]:
        return {
            "fast": lambda over: self._play("fast", CONTROLLER, over),
            "slow": lambda over: self._play("slow", SLOW_CONTROLLER, over),
        }

    def _play(self, loop: CourseLoop, actor: str, is_over: Callable[[], bool]) -> str:
        self._pass()
        while not is_over():
            planned = len([each for each in self.house.store.read(types=["SweepPlanned"]) if each.actor == actor])
            if planned >= self.rounds[loop]:
                close_course(self.house.store, self.house.views(), SITE, f"{planned} rounds", loop)
                self._pass()
                return "the loop has ended"
            sweep = f"{SITE}-{loop}-{planned + 1}"
            event = sample("SweepPlanned", sweep=sweep, environment=SITE)
            self.house.store.append([Append(f"sweep/{sweep}", (event,), actor)])
            if self.promotes and loop == "slow":
                point(self.house, sha256(sweep.encode()).hexdigest())
            self._pass()
        return "the turn is over"

    def _pass(self) -> None:
        if next(self.places) in self.deaths:
            raise Killed

    def choices(self) -> list[LoopChosen]:
        found = (each.event for each in self.house.store.read(types=["LoopChosen"]))
        return [event for event in found if isinstance(event, LoopChosen)]


def run_to_the_end(playing: Playing, **options: Any) -> str:
    while True:
        try:
            return playing.both(**options).run(playing.players())
        except Killed:
            continue


@pytest.mark.parametrize("deaths", [set(), {0, 2, 4, 6}, {1, 3, 5, 7}, set(range(40))], ids=len)
def test_a_process_killed_between_and_within_turns_makes_the_choices_of_one_that_was_not(
    empty_house: House, deaths: set[int]
) -> None:
    playing = Playing(empty_house, {"fast": 3, "slow": 2}, set(deaths))
    assert run_to_the_end(playing) == "fast loop: 3 rounds; slow loop: 2 rounds"
    assert [(each.loop, each.reason) for each in playing.choices()] == [
        ("fast", "untried"),
        ("slow", "untried"),
        ("fast", "worth"),
        ("fast", "worth"),
        ("fast", "worth"),
        ("slow", "other_ended"),
        ("slow", "other_ended"),
    ]
    assert [each.fast.turns + each.slow.turns for each in playing.choices()] == list(range(7))
    assert "the slow loop plays: it has not had a turn yet" in playing.said
    assert "the fast loop has ended: 3 rounds; continuing with the slow loop" in playing.said
    assert len(list(empty_house.store.read(types=["CourseOpened"]))) == 2


def test_after_both_loops_have_ended_both_are_begun_again(empty_house: House) -> None:
    playing = Playing(empty_house, {"fast": 0, "slow": 0})
    for _ in range(2):
        run_to_the_end(playing)
    opened = [each.event.course for each in empty_house.store.read(types=["CourseOpened"])]  # type: ignore[union-attr]
    assert opened == [f"{SITE}-{name}" for name in ("slow-course-1", "course-1", "slow-course-2", "course-2")]
    assert [each.fast.turns for each in playing.choices()] == [0, 1, 0, 1]


def test_a_log_without_choices_is_resumed_with_the_loop_that_has_not_ended(empty_house: House) -> None:
    house, playing = empty_house, Playing(empty_house, {"fast": 0, "slow": 0})
    open_course(house.store, house.views(), SITE, SLOW)
    open_course(house.store, house.views(), SITE, Course())
    close_course(house.store, house.views(), SITE, "nothing to improve")
    run_to_the_end(playing)
    assert playing.said == ["the fast loop has ended: nothing to improve; continuing with the slow loop"]
    assert present_course(house.views(), SITE, "slow") is None
    assert len(list(house.store.read(types=["CourseOpened"]))) == 2


def test_a_loop_that_was_ended_alone_is_not_gone_round_again(empty_house: House) -> None:
    house, playing = empty_house, Playing(empty_house, {"fast": 9, "slow": 9}, {1})
    with pytest.raises(Killed):
        playing.both().run(playing.players())
    close_course(house.store, house.views(), SITE, "no round is left", "slow")
    playing.rounds = {"fast": 0, "slow": 0}
    run_to_the_end(playing)
    assert [(each.loop, each.reason) for each in playing.choices()] == [("fast", "untried"), ("fast", "other_ended")]


def test_without_a_base_model_the_fast_loop_goes_on_first(empty_house: House) -> None:
    playing = Playing(empty_house, {"fast": 2, "slow": 0})
    playing.both(may_warm_up=True).run(playing.players())
    reasons = [(each.loop, each.reason) for each in playing.choices()]
    assert reasons == [("fast", "no_base")] * 3 + [("slow", "other_ended")]


def test_a_budget_that_is_given_anew_holds_for_the_courses_that_are_open(empty_house: House) -> None:
    playing = Playing(empty_house, {"fast": 9, "slow": 9}, {1})
    with pytest.raises(Killed):
        playing.both().run(playing.players())
    BothLoops(empty_house, SITE, Course(max_runs=7), SLOW, print).begin()
    state = present_course(empty_house.views(), SITE)
    assert state is not None
    assert (state.runs, state.number) == (7, 1)


def point(house: House, weights: str) -> None:
    """Point the champion at empty memory with these weights."""
    event = ChampionPointed(artifact=forget_everything(weights)[0], by="genesis", reason="test", evaluation=None)
    house.store.append([Append("champion", (event,), "test")])


@pytest.mark.parametrize("deaths", [set(), set(range(40))], ids=len)
def test_a_fast_course_that_had_ended_goes_on_once_the_champion_has_other_weights(
    empty_house: House, deaths: set[int]
) -> None:
    playing = Playing(empty_house, {"fast": 1, "slow": 2}, set(deaths), promotes=True)
    run_to_the_end(playing, plays_weights=True)
    opened = [each.event.course for each in empty_house.store.read(types=["CourseOpened"])]  # type: ignore[union-attr]
    assert opened == [f"{SITE}-slow-course-1", f"{SITE}-course-1", f"{SITE}-course-1"]
    assert [each.fast.turns + each.slow.turns for each in playing.choices()] == list(range(len(playing.choices())))
    state = last_course(empty_house.views(), SITE)
    assert state is not None
    assert (state.number, state.ended, state.closed) == (1, 2, "1 rounds")


@pytest.mark.parametrize(("promotes", "plays_weights"), [(True, False), (False, True)])
def test_a_fast_course_that_has_ended_stays_so_if_it_would_play_as_before(
    empty_house: House, *, promotes: bool, plays_weights: bool
) -> None:
    playing = Playing(empty_house, {"fast": 1, "slow": 2}, promotes=promotes)
    run_to_the_end(playing, plays_weights=plays_weights)
    assert len(list(empty_house.store.read(types=["CourseOpened"]))) == 2


def test_while_another_controller_works_on_the_site_no_course_is_opened(empty_house: House) -> None:
    with only_controller(empty_house, SITE), pytest.raises(ControllerBusy):
        Playing(empty_house, {}).both().begin()
    assert list(empty_house.store.read(types=["CourseOpened", "LoopChosen"])) == []
