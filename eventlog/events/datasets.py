"""Datasets: a query and a position give one dataset; a group can be registered as a slice of its own."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, TypeAdapter, model_validator

from .event import BlobAddress, Count, Digest, Event, FrozenModel, Micro, Name, ScoreMicro

RewardName = Literal["score", "value", "shaped"]
"""Which reward of a run: the oracle's score, R (the score after cost), or the shaped return."""


def _in_order(sweep: str | tuple[str, ...] | None) -> str | tuple[str, ...] | None:
    """The one way to write sweeps: one by its name, several in order and each once."""
    if not isinstance(sweep, tuple):
        return sweep
    names = tuple(sorted(set(sweep), key=str.encode))
    return names if len(names) > 1 else names[0]


_Several = Annotated[tuple[Name, ...], Field(min_length=1, max_length=1000)]
_OnlyEnvironment = Annotated[Name | None, Field(exclude_if=lambda environment: environment is None)]
_OnlySweep = Annotated[Name | _Several | None, Field(exclude_if=lambda sweep: sweep is None), AfterValidator(_in_order)]
_OnlyGroup = Annotated[Name | None, Field(exclude_if=lambda group: group is None)]


class Floor(FrozenModel):
    """The least that a run must have earned of a reward, in millionths."""

    reward: RewardName
    least: Micro


class Tokens(FrozenModel):
    """What text is made into token ids with: the addresses of a base model's tokenizer.json and of its chat template.

    Addresses are digests of the bytes, so they are what a base model and a served one are compared by.
    """

    tokenizer: BlobAddress
    chat_template: BlobAddress


class SftQuery(FrozenModel):
    """Rejection sampling: runs at or above a score, and above a floor; optionally the best run of each group alone.

    `runs` are those of plans, a row for each step, or a policy's, rows of token ids, or demonstrations, whose words are
    made into the ids of `tokens`. A query of plans' runs without a floor, a sweep and a group is written as it was
    before there were these five.
    """

    kind: Literal["sft"] = "sft"
    min_score: ScoreMicro = 1_000_000
    best_of_group: bool = False
    environment: Name | None = None
    runs: Annotated[Literal["plan", "policy", "demonstration"], Field(exclude_if=lambda runs: runs == "plan")] = "plan"
    floor: Annotated[Floor | None, Field(exclude_if=lambda floor: floor is None)] = None
    sweep: _OnlySweep = None
    group: _OnlyGroup = None
    tokens: Annotated[Tokens | None, Field(exclude_if=lambda tokens: tokens is None)] = None

    @model_validator(mode="after")
    def _tokenises_demonstrations_alone(self) -> Self:
        if (self.tokens is not None) != (self.runs == "demonstration"):
            raise ValueError("tokens are what demonstrations are tokenised with: expected both or neither")
        return self


class DpoQuery(FrozenModel):
    """Pairs inside a group: a chosen run that earned at least `margin` millionths more than the rejected one.

    Of each group at most `max_pairs`, the widest first.
    """

    kind: Literal["dpo"] = "dpo"
    reward: RewardName = "score"
    margin: Annotated[int, Field(ge=1, le=10_000_000)] = 50_000
    max_pairs: Annotated[int, Field(ge=1, le=10_000)] = 4
    environment: _OnlyEnvironment = None
    sweep: _OnlySweep = None
    group: _OnlyGroup = None


class GrpoQuery(FrozenModel):
    """Runs of groups whose rewards differ, each with its advantage `(r - mean) / (std + eps)`.

    `reward` is r. `ddof` 0 is the deviation of the population, 1 that of a sample. `eps` is in units of the reward, a
    decimal number of at most 12 places.
    """

    kind: Literal["grpo"] = "grpo"
    reward: RewardName = "shaped"
    ddof: Annotated[int, Field(ge=0, le=1)] = 1
    eps: Annotated[str, Field(pattern=r"^(0|[1-9]\d{0,5})(\.\d{1,12})?$")] = "0.0001"
    environment: _OnlyEnvironment = None
    sweep: _OnlySweep = None
    group: _OnlyGroup = None


Query = SftQuery | DpoQuery | GrpoQuery
"""What a dataset selects; `kind` says which. `sweep` is one, or several whose runs are taken together."""

AnyQuery = Annotated[Query, Field(discriminator="kind")]
_QUERIES: TypeAdapter[Query] = TypeAdapter(AnyQuery)


def query_of(plain: dict[str, Any]) -> Query:
    """The query that plain JSON stands for. Raises ValidationError."""
    return _QUERIES.validate_json(json.dumps(plain))  # as JSON, which has no tuples


def is_asked_for(query: Query, environment: str, sweep: str, group: str) -> bool:
    """Whether runs of this environment, sweep and group are among those that a query looks at."""
    sweeps = query.sweep if isinstance(query.sweep, tuple) else (query.sweep,)
    asked: tuple[tuple[tuple[str | None, ...], str], ...] = (
        ((query.environment,), environment),
        (sweeps, sweep),
        ((query.group,), group),
    )
    return all(wanted == (None,) or actual in wanted for wanted, actual in asked)


class Refused(FrozenModel):
    """Runs that the query looked at and left out, and why."""

    reason: Name
    runs: Count


class DatasetFrozen(Event):
    """The rows that a query selects from the log up to a position; `dataset` is their content digest."""

    type: Literal["DatasetFrozen"] = "DatasetFrozen"
    dataset: Digest
    query: AnyQuery
    upto: Count
    rows: Count
    groups: Count
    refused: tuple[Refused, ...]


class SliceRegistered(Event):
    """The rows of one group, to be pulled as one shard by the group's name; `dataset` is their content digest."""

    type: Literal["SliceRegistered"] = "SliceRegistered"
    group: Name
    dataset: Digest
    query: AnyQuery
    upto: Count
    rows: Count
    refused: tuple[Refused, ...]
