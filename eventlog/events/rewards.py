"""Rewards: the grades of runs by oracle and judges, with separate terms, in micro-units."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from .event import Count, Digest, Event, FrozenModel, Micro, Name, ScoreMicro


class RewardTerms(FrozenModel):
    """The terms of `R = score - lambda * cost`: score in micro-units, lambda in micro-score per dollar.

    `process` and `progress` are the terms of the shaped return; None if it was not computed. `steps` is what the steps
    earned by the site's record, on its own; it is omitted when stored where no step was checked by the record.
    """

    score: ScoreMicro
    lambda_per_dollar: Micro
    penalty: Micro | None
    process: ScoreMicro | None = None
    progress: ScoreMicro | None = None
    steps: Annotated[Micro | None, Field(exclude_if=lambda steps: steps is None)] = None


class RewardGraded(Event):
    """A run was graded. `cost` is in micro-dollars; if it is unknown, so are `value` and `shaped`.

    `shaping` is the version of the formula that computed `shaped` from the terms (None: not computed). `again` marks a
    regrade of a run that was graded before; its cost is not counted again.
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
    """A judge (a model with a prompt version) graded an ended run. A proxy signal, never the operative verdict.

    `score` is its `confidence` if it says passed, else 0. `opinion` is a blob: its reason, and the model that answered.
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
