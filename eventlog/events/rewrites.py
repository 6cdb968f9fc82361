"""Plan-rewrites: proposed with the rule that decides them, then won and lost by oracle outcomes."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from .event import Count, Digest, Event, FrozenModel, Name, ScoreMicro
from .plans import Step, StepType


class Anchor(FrozenModel):
    """The step a rewrite belongs to, by what it says, not by where it stands in a plan."""

    type: StepType
    intent: str
    content: Digest


class ReplaceUrl(FrozenModel):
    """Open another address in place of the planned one."""

    kind: Literal["replace_url"] = "replace_url"
    url: str


class FollowLink(FrozenModel):
    """Open `page` and follow the link whose text is `label`, in place of the planned address."""

    kind: Literal["follow_link"] = "follow_link"
    page: str
    label: str


class EditStep(FrozenModel):
    """Take another step in place of it."""

    kind: Literal["edit_step"] = "edit_step"
    step: Step


class InsertSteps(FrozenModel):
    """Take these steps too, before the step or after it."""

    kind: Literal["insert_steps"] = "insert_steps"
    steps: Annotated[tuple[Step, ...], Field(min_length=1)]
    where: Literal["before", "after"] = "before"


class PreferTarget(FrozenModel):
    """Act on what is called `label` on the page, in place of what the step names: what a hint says.

    `then` are the texts of links to follow from there, in order. A change without any is written as it was before.
    """

    kind: Literal["prefer_target"] = "prefer_target"
    label: str
    then: Annotated[tuple[str, ...], Field(exclude_if=lambda then: not then)] = ()


Change = Annotated[ReplaceUrl | FollowLink | EditStep | InsertSteps | PreferTarget, Field(discriminator="kind")]

RewriteSource = Literal["pattern_transform", "page_links", "page_controls", "model"]


class SeedsRule(FrozenModel):
    """The seeds' rule: consecutive wins promote, consecutive losses demote, idle days make cold. No controls."""

    name: Literal["seeds"] = "seeds"
    wins_to_promote: Count = 3
    losses_to_demote: Count = 2
    cold_after_days: Count = 30


class PairedRule(FrozenModel):
    """The seeds' wins in a row and evidence from siblings: a trial is one run beside `controls` others of its instance.

    With s successes among the trial's m runs and w in {0, 1} of the tried one, U = sum(m*w - s), V = sum(s*(m - s)). At
    `looks` (in trials) a piece is promoted if U > 0, V >= `least_v`, k*U^2 >= `bound`*V, and it has won
    `wins_in_a_row` at some time; at the last look it is retired otherwise. With one control V is the number of pairs
    that differ: `single` says how many of so many such pairs it must have won, and `single_trials` is the last look.
    """

    name: Literal["paired"] = "paired"
    controls: Count = 3
    looks: tuple[Count, ...] = (10, 20, 30, 40, 50)
    least_v: Count = 30
    bound: Count = 298
    wins_in_a_row: Count = 3
    single: tuple[tuple[Count, Count], ...] = (
        (14, 14),
        (17, 16),
        (20, 18),
        (22, 19),
        (24, 20),
        (27, 22),
        (29, 23),
        (31, 24),
        (33, 25),
        (35, 26),
        (37, 27),
        (39, 28),
        (41, 29),
        (43, 30),
    )
    single_trials: Count = 80
    cold_after_days: Count = 30

    @model_validator(mode="after")
    def _can_be_met(self) -> PairedRule:
        if not self.controls:
            raise ValueError("controls is 0; expected at least 1: evidence comes from siblings")
        if not self.looks or list(self.looks) != sorted(set(self.looks)) or not self.looks[0]:
            raise ValueError(f"looks are {self.looks}; expected numbers of trials, rising from 1 or more")
        return self


PromotionRule = Annotated[SeedsRule | PairedRule, Field(discriminator="name")]
"""What decides a piece of memory. It rides on the event that proposes the piece."""


class RewriteProposed(Event):
    """Recovery found a fix in a failed run and checked it there; the rule that will decide it rides along.

    A further event of the same rewrite brings it back: demoted, cold or retired it is a candidate again, quarantined it
    may be tried again. Of one that is on trial or in use it says nothing new.
    """

    type: Literal["RewriteProposed"] = "RewriteProposed"
    rewrite: Name
    anchor: Anchor
    change: Change
    rule: PromotionRule
    run: Name
    source: RewriteSource
    confidence: ScoreMicro


class RewriteWon(Event):
    """A run that carried exactly this candidate passed its oracle. Under the seeds' rule there are no controls.

    `control_runs` are its untreated siblings of lowest index, as many as the rule asks.
    """

    type: Literal["RewriteWon"] = "RewriteWon"
    rewrite: Name
    run: Name
    control_runs: tuple[Name, ...]
    control_successes: Count


class RewriteLost(Event):
    """A run that carried exactly this candidate failed its oracle; the rest is as in RewriteWon."""

    type: Literal["RewriteLost"] = "RewriteLost"
    rewrite: Name
    run: Name
    control_runs: tuple[Name, ...]
    control_successes: Count
