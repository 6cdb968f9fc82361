"""A failed run as input of recovery: its plan, the steps taken, and the failed step. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from eventlog.events import Step, places

from ...plans import Overlaid, Piece, Plan

Overlay = Callable[[Piece | None], Overlaid]


@dataclass(frozen=True, slots=True)
class PlanTurn:
    """One executed step, the index of the plan step that it comes from, and the number of its turn.

    Steps that replace one plan step, or were inserted beside it, belong to the same turn.
    """

    step: Step
    origin: int
    turn: int


@dataclass(frozen=True, slots=True)
class Failing:
    """A run that failed its oracle.

    `plan` is the template's plan, and `overlay` applies the run's memory and one more piece to it. `turns` are the
    steps that the run took or would have taken; `at` is the number of the failed one, None if every step succeeded.
    """

    environment: str
    plan: Plan
    overlay: Overlay
    turns: tuple[PlanTurn, ...]
    at: int | None

    def before(self, number: int) -> Plan:
        """Steps before the step with this number."""
        return tuple(each.step for each in self.turns[:number])

    def is_own(self, number: int) -> bool:
        """True if memory did not change the template's step, so that its target or address can be replaced."""
        each = self.turns[number]
        return each.step == _bare(self.plan[each.origin])

    def steps_with(self, piece: Piece) -> tuple[tuple[Step, ...], Step | None]:
        """Steps with one more piece, up to the failed one, and the step after it; all steps if none failed."""
        turns = list(plan_turns(self.overlay(piece), len(self.turns) + len(self.plan)))
        if self.at is None:
            return tuple(each.step for each in turns), None
        last = self.turns[self.at].turn
        following = next((each.step for each in turns if each.turn > last), None)
        return tuple(each.step for each in turns if each.turn <= last), following


def failed_run(environment: str, plan: Plan, overlay: Overlay, at: int | None, max_steps: int) -> Failing:
    """Failed run of a plan; `at` is the number of its failed step in the order of execution."""
    return Failing(environment, plan, overlay, tuple(plan_turns(overlay(None), max_steps)), at)


def plan_turns(overlaid: Overlaid, at_most: int) -> Iterator[PlanTurn]:
    """Yield the steps of an overlaid plan in the order of execution, `at_most` of them."""
    turn, before = 0, -1
    for number, place in enumerate(places(overlaid.plan)):
        if number == at_most:
            return
        is_new = place <= before or (before >= 0 and overlaid.origins[place] != overlaid.origins[before])
        turn, before = turn + is_new, place
        yield PlanTurn(_bare(overlaid.plan[place]), overlaid.origins[place], turn)


def _bare(step: Step) -> Step:
    return step if step.loop_to is None else step.model_copy(update={"loop_to": None, "loop_count": None})
