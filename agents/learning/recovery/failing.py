"""A failed run as recovery looks at it: what was planned, what was done, where it went wrong. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from eventlog.events import Step, places

from ...plans import Overlaid, Piece, Plan

Overlay = Callable[[Piece | None], Overlaid]


@dataclass(frozen=True, slots=True)
class PlanTurn:
    """One step as it is taken: which step of the plan it comes from, and the how-manieth of the plan's turns it is in.

    Steps that stand for one step, or were put beside it, are of one turn.
    """

    step: Step
    origin: int
    turn: int


@dataclass(frozen=True, slots=True)
class Failing:
    """A run whose oracle said no.

    `plan` is the template's, `overlay` gives it with the run's memory and one more piece, `turns` are the steps that it
    took or would have taken, and `at` is the number of the one that failed: None where each went well.
    """

    environment: str
    plan: Plan
    overlay: Overlay
    turns: tuple[PlanTurn, ...]
    at: int | None

    def before(self, number: int) -> Plan:
        """The steps before one of them."""
        return tuple(each.step for each in self.turns[:number])

    def is_own(self, number: int) -> bool:
        """Whether a step is the template's own, so that another target or address can stand for it."""
        each = self.turns[number]
        return each.step == _bare(self.plan[each.origin])

    def steps_with(self, piece: Piece) -> tuple[tuple[Step, ...], Step | None]:
        """The steps with one more piece, as far as the failed one, and the step after it; all where none failed."""
        turns = list(plan_turns(self.overlay(piece), len(self.turns) + len(self.plan)))
        if self.at is None:
            return tuple(each.step for each in turns), None
        last = self.turns[self.at].turn
        following = next((each.step for each in turns if each.turn > last), None)
        return tuple(each.step for each in turns if each.turn <= last), following


def failed_run(environment: str, plan: Plan, overlay: Overlay, at: int | None, max_steps: int) -> Failing:
    """The failed run of a plan; `at` is the number of its failed step, as it was taken."""
    return Failing(environment, plan, overlay, tuple(plan_turns(overlay(None), max_steps)), at)


def plan_turns(overlaid: Overlaid, at_most: int) -> Iterator[PlanTurn]:
    """The steps of an overlaid plan as they are taken, `at_most` of them."""
    turn, before = 0, -1
    for number, place in enumerate(places(overlaid.plan)):
        if number == at_most:
            return
        is_new = place <= before or (before >= 0 and overlaid.origins[place] != overlaid.origins[before])
        turn, before = turn + is_new, place
        yield PlanTurn(_bare(overlaid.plan[place]), overlaid.origins[place], turn)


def _bare(step: Step) -> Step:
    return step if step.loop_to is None else step.model_copy(update={"loop_to": None, "loop_count": None})
