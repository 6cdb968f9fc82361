"""What is to be done: steps, templates and the specs of runs. They ride on events of the run family."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Annotated, Literal

from pydantic import Field, model_validator

from .event import Count, FrozenModel, Name, Whole

StepType = Literal[
    "navigate", "click", "fill_field", "select_option", "submit", "click_at", "press_key", "scroll", "finish"
]
"""What an agent can do. The last four are a policy's alone: no plan over HTTP holds them. click_at: `value` is `x,y` in
pixels of the window. finish: the agent says that it is done, `value` is its answer."""


class Step(FrozenModel):
    """One intent of a micro-plan. `label` is what a person sees: a link's text, a field's label, a button's caption.

    With `loop_to` the walk goes back from here to the step at that place, `loop_count` times. An `optional` step is
    passed over where the page lacks what it names. A step without these three is written as it was before there were
    any. Raises ValueError for a loop that lacks one of its two numbers.
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


def places(plan: Sequence[Step]) -> Iterator[int]:
    """The places of a plan's steps in the order in which they are taken, its loops walked; inner loops begin anew.

    A loop that would go forward is none.
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
    """A plan's steps in the order in which they are taken, `at_most` of them, without loops."""
    return tuple(_straight(plan[place]) for place in islice(places(plan), at_most))


def _straight(step: Step) -> Step:
    return step if step.loop_to is None else step.model_copy(update={"loop_to": None, "loop_count": None})


class Template(FrozenModel):
    """A task that takes a seed (the seeds' TaskTemplate); `oracle_task_id` ties its runs to their grader.

    It has a plan as steps, or as free text that has to be decomposed before it can be run. Raises ValueError without
    either.
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
    """One rollout to execute (the seeds' RolloutSpec). `template` is a template_id; the sweep makes re-runs distinct.

    `candidate` names the one rewrite that a treated sibling carries beyond its artifact, `withheld` the one piece of
    its artifact that it does without. Specs of one `state_key` are a session: played in order, in one browser profile;
    without one a spec is independent. `temperature_micro` is what a model draws with. An event without these three is
    written as it was before there were any.
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
        """Whether it plays its artifact as it is: nothing on trial, nothing withheld."""
        return self.candidate is None and self.withheld is None


class TaskSpec(FrozenModel):
    """What the run was asked to do, as it was asked."""

    task_spec_id: Name
    instruction: str
    task_class: Name
    environment: Name
    max_steps: Count
    success_conditions: tuple[str, ...]
