"""Steps, templates and specs of runs: fields of events of the run family."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Annotated, Final, Literal

from pydantic import Field, model_validator

from .event import Count, FrozenModel, Name, Whole

StepType = Literal[
    "navigate", "click", "fill_field", "select_option", "submit", "click_at", "press_key", "scroll", "finish", "act"
]
"""The kinds of an agent's steps. Plans over HTTP never use the last five. click_at: `value` is `x,y` in pixels of the
window. finish: the agent declares that it is done, `value` is its answer. act: an action of an environment that is no
web site; `label` is its open name (`answer`, `sql`), `value` its argument as text or as a JSON object."""

_ACTION_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,63}")

ActionName = Annotated[str, Field(pattern=f"^{_ACTION_NAME.pattern}$")]
"""The name of an action: the type of a step on a page, or the open name that an environment gives an action."""


class Step(FrozenModel):
    """One step of a plan. `label` is the visible text: of a link, of a field's label, of a button.

    With `loop_to`, execution jumps back from here to the step at that index, `loop_count` times. An `optional` step is
    skipped if the page lacks its target. These three fields are omitted when stored at their defaults, so older steps
    keep their digest. Raises ValueError if only one of `loop_to` and `loop_count` is given, or if an act step names no
    action.
    """

    type: StepType
    intent: str
    url: str | None = None
    label: str | None = None
    value: str | None = None
    loop_to: Annotated[Count | None, Field(exclude_if=lambda place: place is None)] = None
    loop_count: Annotated[Count | None, Field(exclude_if=lambda times: times is None)] = None
    optional: Annotated[bool, Field(exclude_if=lambda optional: not optional)] = False

    @model_validator(mode="after")
    def _loops_or_not(self) -> Step:
        if (self.loop_to is None) != (self.loop_count is None):
            raise ValueError(f"loop_to is {self.loop_to} and loop_count {self.loop_count}; expected both or neither")
        return self

    @model_validator(mode="after")
    def _names_its_action(self) -> Step:
        if self.type == "act" and not _ACTION_NAME.fullmatch(self.label or ""):
            raise ValueError(f"the label of an act step is {self.label!r}; expected the name of an action")
        return self

    @property
    def action(self) -> str:
        """The name of the action: the open name of an act step, else the step's type."""
        return self.label or "" if self.type == "act" else self.type


def places(plan: Sequence[Step]) -> Iterator[int]:
    """The indices of a plan's steps in execution order, following loops. An inner loop restarts with its outer loop.

    A `loop_to` that points forward is ignored.
    """
    left: dict[int, int] = {}
    place = 0
    while place < len(plan):
        yield place
        target, times = plan[place].loop_to, left.get(place, plan[place].loop_count or 0)
        if target is not None and target <= place and times:
            left = {loop: turns for loop, turns in left.items() if not target <= loop <= place} | {place: times - 1}
            place = target
        else:
            left.pop(place, None)
            place += 1


def unroll(plan: Sequence[Step], at_most: int) -> tuple[Step, ...]:
    """The first `at_most` steps of a plan in execution order, with loops unrolled."""
    return tuple(_straight(plan[place]) for place in islice(places(plan), at_most))


def _straight(step: Step) -> Step:
    return step if step.loop_to is None else step.model_copy(update={"loop_to": None, "loop_count": None})


class Template(FrozenModel):
    """A task to instantiate with a seed (TaskTemplate in the seed documents). `oracle_task_id` selects its grader.

    Its plan is a list of steps, or free text to be decomposed before a run. Raises ValueError if it has neither.
    """

    template_id: Name
    cluster: Name
    oracle_task_id: Name
    instruction: str
    plan_text: str | None = None
    plan_steps: tuple[Step, ...] = ()
    max_steps: Count = 40

    @model_validator(mode="after")
    def _has_a_plan(self) -> Template:
        if not self.plan_text and not self.plan_steps:
            raise ValueError(f"template {self.template_id!r} has no plan; expected plan_steps or plan_text")
        return self


class Spec(FrozenModel):
    """One rollout to execute (RolloutSpec in the seed documents). `template` is a template_id.

    `candidate` is the piece that this sibling carries in addition to its artifact (a treated sibling), `withheld` the
    piece of its artifact that it leaves out. Specs with one `state_key` form a session: played in order, in one browser
    profile; without it a spec is independent. `temperature_micro` is the model's sampling temperature. The last three
    fields are omitted when stored as None, so older specs keep their digest.
    """

    spec_id: Name
    template: Name
    env_seed: Whole
    group_id: Name
    sibling_index: Count
    sweep: Name
    candidate: Name | None = None
    state_key: Annotated[Name | None, Field(exclude_if=lambda key: key is None)] = None
    temperature_micro: Annotated[Count | None, Field(exclude_if=lambda micro: micro is None)] = None
    withheld: Annotated[Name | None, Field(exclude_if=lambda piece: piece is None)] = None

    @property
    def is_plain(self) -> bool:
        """True if the run plays its artifact unchanged: no candidate, no withheld piece."""
        return self.candidate is None and self.withheld is None


class TaskSpec(FrozenModel):
    """The task as given to the run."""

    task_spec_id: Name
    instruction: str
    task_class: Name
    environment: Name
    max_steps: Count
    success_conditions: tuple[str, ...]
