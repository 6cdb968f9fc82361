"""Rewards: what a channel said of a run, its terms kept apart, in micro-units."""

from __future__ import annotations

from typing import ClassVar, Literal

from .event import Count, Digest, Event, FrozenModel, Micro, Name, ScoreMicro


class RewardTerms(FrozenModel):
    """The terms of `R = score - lambda * cost`: micro-score, and micro-score a dollar.

    `process` and `progress` are those of the shaped return; None where it was not made.
    """

    score: ScoreMicro
    lambda_per_dollar: Micro
    penalty: Micro | None
    process: ScoreMicro | None = None
    progress: ScoreMicro | None = None


class RewardGraded(Event):
    """A run was graded. `cost` is in micro-dollars; where it is unknown, so are `value` and `shaped`.

    `shaping` names the version of the formula that made `shaped` of the terms; None: none did. `again` says that the
    run was graded before: this is another word on it, and no further cost.
    """

    schema_version: ClassVar[int] = 2
    type: Literal["RewardGraded"] = "RewardGraded"
    run: Name
    group: Name
    channel: Literal["oracle"]
    version: Name
    score: ScoreMicro
    passed: bool
    reasons: tuple[str, ...]
    terms: RewardTerms
    prices: Count
    cost: Count | None
    value: Micro | None
    shaping: Name | None = None
    shaped: Micro | None = None
    again: bool = False


class JudgeOpined(Event):
    """What a judge (a model and a version of its prompt) said of an ended run: a proxy, never the operative verdict.

    `score` is its `confidence` where it says passed, else 0. `opinion` is a blob: its reason, and what answered.
    """

    type: Literal["JudgeOpined"] = "JudgeOpined"
    run: Name
    group: Name
    model: Name
    prompt: Name
    passed: bool
    score: ScoreMicro
    confidence: ScoreMicro
    opinion: Digest
    input_tokens: Count | None
    output_tokens: Count | None
