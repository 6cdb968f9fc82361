"""Run both loops by turns. The log says whose turn it is, so a killed process resumes with exactly that one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from eventlog.disowned import read_in_force
from eventlog.events import CourseLoop, LoopChosen, LoopRecord
from eventlog.store import Append, Position
from projections.champions import CHAMPION, CHAMPIONS
from projections.courses import CourseState
from projections.engine.views import Views

from ..course import CONTROLLER, Course
from ..history.disown import refuse_forged
from ..house import House
from ..locks import only_controller
from ..queries.courses import last_course, present_course
from ..queries.facts import require
from ..sweeps.plan import first_facts
from .both_next import KEEP, OPTIMISM, choose_loop, credit_turn, describe_choice, other_loop, record_of, turn_cost
from .both_turns import compute_cost, compute_gain, sweeps_planned
from .budgets import course_stream, open_course, reopen_course
from .slow_next import SlowCourse
from .warmup_next import present_base

Play = Callable[[Callable[[], bool]], str]
"""Run the controller of a loop until it has ended, or would plan a sweep when what it is given is True; says why."""

_EACH: tuple[CourseLoop, ...] = ("fast", "slow")


@dataclass(frozen=True, slots=True)
class Turn:
    """A recorded choice and its position."""

    chosen: LoopChosen
    since: Position


@dataclass(frozen=True, slots=True)
class BothLoops:
    """Both loops on one site. `say` is called with a sentence for each turn.

    `may_warm_up` if the slow loop was given no base model and the fast one improves the plans that its first base would
    be demonstrated with. Where the fast one `plays_weights`, its course goes on after its end once the champion has
    others than it ended with.
    """

    house: House
    site: str
    fast: Course
    slow: SlowCourse
    say: Callable[[str], None]
    may_warm_up: bool = False
    plays_weights: bool = False

    def run(self, players: Mapping[CourseLoop, Play]) -> str:
        """Give turns until both loops have ended; an interrupted turn goes on first. Returns why each one ended.

        Raises ControllerBusy, ForgedEvents, and what the players raise.
        """
        turn = self.begin()
        while turn is not None:
            self.say(self._describe(turn))
            players[turn.chosen.loop](partial(self._is_over, turn))
            turn = self._next(turn)
        states = self._courses(self.house.views())
        return "; ".join(f"{loop} loop: {state.closed}" for loop, state in states.items())

    def begin(self) -> Turn | None:
        """Open or resume the courses of both loops, and choose the first turn unless one was interrupted.

        The slow course is opened first: a log without choices is resumed with the slow loop, if a fast course was
        closed since. Raises ControllerBusy, ForgedEvents.
        """
        with only_controller(self.house, self.site) as own:
            refuse_forged(own.views())
            first_facts(own)
            turn = self._last_turn(own.views())
            begun = {} if turn is None else self._courses(own.views())
            if "slow" not in begun or begun["slow"].is_open:
                open_course(own.store, own.views(), self.site, self.slow)
            if begun["fast"].is_open if begun else fast_part_ended(own.views(), self.site) is None:
                open_course(own.store, own.views(), self.site, self.fast)
            if turn is not None and self._courses(own.views())[turn.chosen.loop].is_open:
                return turn
            return self._choose(own, turn)

    def _next(self, turn: Turn) -> Turn | None:
        with only_controller(self.house, self.site) as own:
            return self._choose(own, turn)

    def _choose(self, own: House, last: Turn | None) -> Turn | None:
        """Append the choice of the next turn. None if both loops have ended."""
        views = own.views()
        if self._has_other_weights(views):
            reopen_course(own.store, self._courses(views)["fast"])
            views = own.views()
        states = self._courses(views)
        ended = {loop for loop, state in states.items() if not state.is_open}
        fast, slow = (self._record(own, views, last, loop, states[loop]) for loop in _EACH)
        lacks_base = self.may_warm_up and present_base(views) is None
        choice = choose_loop(fast, slow, ended=ended, lacks_base=lacks_base)
        if choice is None:
            return None
        loop, reason = choice
        chosen = LoopChosen(
            environment=self.site, loop=loop, reason=reason, fast=fast, slow=slow, optimism=OPTIMISM, keep=KEEP
        )
        own.store.append([Append(course_stream(self.site), (chosen,), CONTROLLER)])
        return self._last_turn(own.views())

    def _has_other_weights(self, views: Views) -> bool:
        """True if the fast course has ended, and the champion has other weights by now than it had then."""
        state = last_course(views, self.site)
        if not self.plays_weights or state is None or state.closed_since is None:
            return False
        before = self.house.views(Position(state.closed_since)).get(CHAMPIONS, CHAMPION)
        now = views.get(CHAMPIONS, CHAMPION)
        weights = [None if each is None else each.pointed_artifact().weights for each in (before, now)]
        return weights[0] != weights[1]

    def _record(self, own: House, views: Views, last: Turn | None, loop: CourseLoop, state: CourseState) -> LoopRecord:
        """The record of a loop, with its turn if it had the last one."""
        if last is None:
            return LoopRecord(course=state.course, turns=0, cost=0, recent_gain=0, recent_cost=0)
        record = record_of(last.chosen, loop)
        if last.chosen.loop != loop:
            return record
        gain = compute_gain(views, self.site, loop, last.since)
        cost = compute_cost(own.store, views, self.site, loop, last.since)
        return credit_turn(record, gain, turn_cost(cost, record_of(last.chosen, other_loop(loop))))

    def _last_turn(self, views: Views) -> Turn | None:
        """The last turn; None if there is none of the present courses, or both have ended and none goes on."""
        found = [(loop, last_course(views, self.site, loop)) for loop in _EACH]
        states = {loop: state for loop, state in found if state is not None}
        if len(states) < len(_EACH):
            return None
        begun = Position(max(state.since for state in states.values()))
        chosen = read_in_force(
            self.house.store, stream=course_stream(self.site), types=["LoopChosen"], after=begun, upto=views.upto
        )
        turns = [Turn(each.event, each.position) for each in chosen if isinstance(each.event, LoopChosen)]
        goes_on = any(state.is_open for state in states.values()) or self._has_other_weights(views)
        return turns[-1] if turns and goes_on else None

    def _courses(self, views: Views) -> dict[CourseLoop, CourseState]:
        return {loop: require(last_course(views, self.site, loop)) for loop in _EACH}

    def _is_over(self, turn: Turn) -> bool:
        """True if the loop has planned the sweep of its turn."""
        return bool(sweeps_planned(self.house.views(), self.site, turn.chosen.loop, turn.since))

    def _describe(self, turn: Turn) -> str:
        other = last_course(self.house.views(), self.site, other_loop(turn.chosen.loop))
        return describe_choice(turn.chosen, None if other is None else other.closed)


def fast_part_ended(views: Views, site: str) -> str | None:
    """Why the fast loop has ended: its course was closed after the open slow course was opened. None: it has not."""
    fast, slow = last_course(views, site), present_course(views, site, "slow")
    if fast is None or slow is None or fast.closed_since is None or fast.closed_since < slow.since:
        return None
    return fast.closed
