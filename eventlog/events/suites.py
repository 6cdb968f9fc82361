"""Suites: the tasks of an environment with their plans, seeds and operations, as a person brought them in."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from .event import Count, Digest, Event, FrozenModel, Name, ScoreMicro
from .plans import Step

SuiteName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=100)]
"""The name of a suite. It has no `@`, which parts it from its version."""

Text = Annotated[str, Field(min_length=1, max_length=20_000)]
"""Text for a person or a model: an instruction, or a plan in words."""


def _plan_form(plan: object) -> str:
    return "text" if isinstance(plan, str) else "steps"


SuitePlan = Annotated[
    Annotated[Text, Tag("text")] | Annotated[tuple[Step, ...], Field(min_length=1), Tag("steps")],
    Discriminator(_plan_form),
]
"""A plan as steps, or in words that a model turns into steps."""


class SeedSpan(FrozenModel):
    """The seeds from `first` to `last`, both included. Raises ValueError if it is empty."""

    first: Count
    last: Count

    @model_validator(mode="after")
    def _is_in_order(self) -> SeedSpan:
        if self.last < self.first:
            raise ValueError(f"the range {self.first}-{self.last} ends before it begins")
        return self

    @property
    def seeds(self) -> range:
        """The seeds of the span."""
        return range(self.first, self.last + 1)


class SuiteSeeds(FrozenModel):
    """Seeds for learning, and seeds that only the gate plays. Raises ValueError if they overlap."""

    training: SeedSpan = SeedSpan(first=0, last=8_999)
    sealed: SeedSpan = SeedSpan(first=10_000, last=19_999)

    @model_validator(mode="after")
    def _are_apart(self) -> SuiteSeeds:
        one, other = self.training, self.sealed
        if one.first <= other.last and other.first <= one.last:
            raise ValueError(
                f"the training seeds {one.first}-{one.last} overlap the sealed seeds {other.first}-{other.last}"
            )
        return self


class SuiteTask(FrozenModel):
    """One task of a suite. What is None comes from what the environment says of itself.

    `oracle_task` selects its grader (None: the id). A task without a plan is for agents only. `threshold_micro` is the
    least score that counts as passed, for an environment that gives a reward and no verdict.
    """

    id: Name
    instruction: Annotated[Text | None, Field(exclude_if=lambda given: given is None)] = None
    oracle_task: Annotated[Name | None, Field(exclude_if=lambda given: given is None)] = None
    cluster: Annotated[Name | None, Field(exclude_if=lambda given: given is None)] = None
    plan: Annotated[SuitePlan | None, Field(exclude_if=lambda given: given is None)] = None
    max_steps: Annotated[int, Field(ge=1, le=1_000)] = 40
    threshold_micro: Annotated[ScoreMicro | None, Field(exclude_if=lambda given: given is None)] = None

    @property
    def graded_as(self) -> str:
        """The task id that the environment grades."""
        return self.oracle_task or self.id

    @property
    def steps(self) -> tuple[Step, ...]:
        """The plan's steps; none if the plan is in words or missing."""
        return self.plan if isinstance(self.plan, tuple) else ()


class Operation(FrozenModel):
    """A kind of step: the captions of its buttons, and the operations that the site records when it succeeds.

    A kind without operations is expected to change nothing. `navigate` and `fill` are the kinds of steps that follow
    links and fill fields; the kind of a `submit` step is found by its caption, whatever its case.
    """

    kind: Name
    labels: tuple[Name, ...] = ()
    records: tuple[Name, ...] = ()


class Suite(FrozenModel):
    """The tasks of an environment. A suite of `a` also serves environments that are named `a.…`, a task each."""

    name: SuiteName
    environment: Name
    tasks: Annotated[tuple[SuiteTask, ...], Field(min_length=1)]
    operations: tuple[Operation, ...] = ()
    seeds: SuiteSeeds = SuiteSeeds()

    def serves(self, environment: str) -> bool:
        """True if the suite is for an environment of this name."""
        return environment == self.environment or environment.startswith(f"{self.environment}.")


class SuiteRegistered(Event):
    """A version of a suite, in the stream `suite/NAME`; its version there is the suite's. `digest` is of `content`."""

    type: Literal["SuiteRegistered"] = "SuiteRegistered"
    suite: SuiteName
    environment: Name
    digest: Digest
    content: Suite
