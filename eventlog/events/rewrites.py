"""Plan-rewrites: proposed with the rule that decides them, then won and lost by oracle outcomes."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from .event import Count, Digest, Event, FrozenModel, Name, ScoreMicro
from .plans import StepType


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


Change = Annotated[ReplaceUrl | FollowLink, Field(discriminator="kind")]

RewriteSource = Literal["pattern_transform", "page_links"]


class PromotionRule(FrozenModel):
    """The seeds' rule: consecutive wins promote, consecutive losses demote, idle days make cold."""

    name: Literal["seeds"] = "seeds"
    wins_to_promote: Count = 3
    losses_to_demote: Count = 2
    cold_after_days: Count = 30


class RewriteProposed(Event):
    """Recovery found a fix in a failed run and checked it there; the rule that will decide it rides along."""

    type: Literal["RewriteProposed"] = "RewriteProposed"
    rewrite: Name
    anchor: Anchor
    change: Change
    rule: PromotionRule
    run: Name
    source: RewriteSource
    confidence: ScoreMicro


class RewriteWon(Event):
    """A run that carried exactly this candidate passed its oracle. Under the seeds' rule there are no controls."""

    type: Literal["RewriteWon"] = "RewriteWon"
    rewrite: Name
    run: Name
    control_runs: tuple[Name, ...]
    control_successes: Count


class RewriteLost(Event):
    """A run that carried exactly this candidate failed its oracle."""

    type: Literal["RewriteLost"] = "RewriteLost"
    rewrite: Name
    run: Name
    control_runs: tuple[Name, ...]
    control_successes: Count
