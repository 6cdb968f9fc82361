"""Rewards: what a channel said of a run, its terms kept apart, in micro-units."""

from __future__ import annotations

from typing import Literal

from .event import Count, Digest, Event, FrozenModel, Micro, Name, ScoreMicro


class RewardTerms(FrozenModel):
    """The terms of `R = score - lambda * cost`: micro-score, and micro-score a dollar."""

    score: ScoreMicro
    lambda_per_dollar: Micro
    penalty: Micro | None


class RewardGraded(Event):
    """A run was graded. `cost` is in micro-dollars; where it is unknown, so is `value`."""

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
