"""Plan rewrites: proposed with the rule that decides their promotion, then tried in runs that an oracle grades."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field, model_validator

from .event import Count, Digest, Event, FrozenModel, Name, ScoreMicro, Whole
from .plans import Step, StepType


class Anchor(FrozenModel):
    """The step to which a rewrite applies, identified by its content, not by its index in a plan."""

    type: StepType
    intent: str
    content: Digest


class ReplaceUrl(FrozenModel):
    """Open another address instead of the planned one."""

    kind: Literal["replace_url"] = "replace_url"
    url: str


class FollowLink(FrozenModel):
    """Open `page` and follow the link whose text is `label`, instead of opening the planned address."""

    kind: Literal["follow_link"] = "follow_link"
    page: str
    label: str


class EditStep(FrozenModel):
    """Replace the anchored step by another one, and take the steps of `then` after it.

    `then` is omitted when stored empty, so digests stay the same.
    """

    kind: Literal["edit_step"] = "edit_step"
    step: Step
    then: Annotated[tuple[Step, ...], Field(exclude_if=lambda then: not then)] = ()


class InsertSteps(FrozenModel):
    """Insert steps before or after the anchored step."""

    kind: Literal["insert_steps"] = "insert_steps"
    steps: Annotated[tuple[Step, ...], Field(min_length=1)]
    where: Literal["before", "after"] = "before"


class PreferTarget(FrozenModel):
    """Act on the page element labelled `label` instead of the step's own target: the change of a hint.

    `then` are the texts of links to follow from there, in order; omitted when stored empty, so digests stay the same.
    """

    kind: Literal["prefer_target"] = "prefer_target"
    label: str
    then: Annotated[tuple[str, ...], Field(exclude_if=lambda then: not then)] = ()


Change = Annotated[ReplaceUrl | FollowLink | EditStep | InsertSteps | PreferTarget, Field(discriminator="kind")]

RewriteSource = Literal["pattern_transform", "page_links", "page_controls", "model"]


class SeedsRule(FrozenModel):
    """The rule of the seed documents: consecutive wins promote, consecutive losses demote, idle days make a piece cold.

    It uses no controls.
    """

    name: Literal["seeds"] = "seeds"
    wins_to_promote: Count = 3
    losses_to_demote: Count = 2
    cold_after_days: Count = 30


_Unit = Literal["instance", "seed"]
"""The unit of one trial: each run beside its siblings, or the first of all at a seed, which tasks may share."""

_Odds = Annotated[int, Field(ge=2, le=1_000)]


_EARLY_STOP: Final = {4: 0, 8: 60, 12: 120, 20: 200, 30: 200, 40: 250}


class PairedRule(FrozenModel):
    """The seed documents' streak of wins plus paired evidence: a trial is one run and `controls` runs of its instance.

    With s successes among the trial's m runs and w in {0, 1} for the tried one, U = sum(m*w - s), V = sum(s*(m - s)).
    At `looks` (numbers of trials) a piece is promoted if U > 0, V >= `least_v`, k*U^2 >= `bound`*V, and it has had a
    streak of `wins_in_a_row`; at the last look it is otherwise retired. With one control, V is the number of discordant
    pairs: `single` lists (pairs, wins required), and `single_trials` is the last look.

    The last four fields are omitted when stored at their defaults, which are the rule of older events. With the `unit`
    "seed" only the first trial at each seed counts. `odds` are the odds ratios of a likelihood-ratio e-process, which
    promotes beside the looks as soon as its value reaches `e_value` (0: it is off). `futile` lists (trials, z squared
    in hundredths): there a piece is retired if U <= 0 or 100*U^2 is below that number times V.
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
    unit: Annotated[_Unit, Field(exclude_if=lambda unit: unit == "instance")] = "instance"
    odds: Annotated[tuple[_Odds, ...], Field(exclude_if=lambda odds: not odds)] = ()
    e_value: Annotated[Count, Field(exclude_if=lambda value: not value)] = 0
    futile: Annotated[tuple[tuple[Count, Count], ...], Field(exclude_if=lambda futile: not futile)] = ()

    @classmethod
    def current(cls) -> PairedRule:
        """The rule that new pieces are proposed with. `make bench-evidence` measures its errors and its power."""
        return cls(
            looks=(10, 20, 30, 40, 50, 60),
            bound=370,
            unit="seed",
            odds=(8, 64),
            e_value=500,
            futile=((20, 0), (30, 20), (40, 80), (50, 150)),
        )

    def with_early_stop(self) -> PairedRule:
        """This rule with a stricter futility stop from the fourth trial on, for pieces of which many are proposed.

        It promotes nothing that this rule would not: it gives up where this one does, at the stricter of two numbers.
        With one control it is this rule. `make bench-evidence` measures its errors and its power.
        """
        if self.controls == 1:
            return self
        own = dict(self.futile)
        early = own | {k: max(least, own.get(k, 0)) for k, least in _EARLY_STOP.items()}
        return self.model_copy(update={"futile": tuple(sorted(early.items()))})

    @model_validator(mode="after")
    def _can_be_met(self) -> PairedRule:
        if not self.controls:
            raise ValueError("controls is 0; expected at least 1: evidence comes from siblings")
        if not self.looks or list(self.looks) != sorted(set(self.looks)) or not self.looks[0]:
            raise ValueError(f"looks are {self.looks}; expected increasing numbers of trials, each at least 1")
        if bool(self.odds) != bool(self.e_value):
            raise ValueError(f"odds are {self.odds}, e_value is {self.e_value}; expected both, or neither")
        return self


PromotionRule = Annotated[SeedsRule | PairedRule, Field(discriminator="name")]
"""The rule that decides whether a piece of memory is promoted. It is stored in the event that proposes the piece."""


class RewriteProposed(Event):
    """Recovery found a fix for a failed run and verified it there. `rule` will decide its promotion.

    A further event of the same rewrite reopens it: a demoted, cold or retired rewrite becomes a candidate again, a
    quarantined one may be tried again. It has no effect on a rewrite that is on trial or promoted.
    """

    type: Literal["RewriteProposed"] = "RewriteProposed"
    rewrite: Name
    anchor: Anchor
    change: Change
    rule: PromotionRule
    run: Name
    source: RewriteSource
    confidence: ScoreMicro


EnvSeed = Annotated[Whole | None, Field(exclude_if=lambda seed: seed is None)]
"""The seed of a trial's instance; None, and not stored, in events from before it was recorded."""


class RewriteWon(Event):
    """A run that carried only this candidate passed its oracle.

    `control_runs` are the siblings without a candidate that have the lowest indices, as many as the rule requires; none
    under SeedsRule.
    """

    type: Literal["RewriteWon"] = "RewriteWon"
    rewrite: Name
    run: Name
    control_runs: tuple[Name, ...]
    control_successes: Count
    env_seed: EnvSeed = None


class RewriteLost(Event):
    """A run that carried only this candidate failed its oracle; fields as in RewriteWon."""

    type: Literal["RewriteLost"] = "RewriteLost"
    rewrite: Name
    run: Name
    control_runs: tuple[Name, ...]
    control_successes: Count
    env_seed: EnvSeed = None
