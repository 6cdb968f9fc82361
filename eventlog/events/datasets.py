"""Datasets: a query and a position define one dataset; one group can be registered as a slice."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, TypeAdapter, model_validator

from .event import BlobAddress, Count, Digest, Event, FrozenModel, Micro, Name, ScoreMicro

RewardName = Literal["score", "value", "shaped"]
"""The reward of a run that a query uses: the oracle's score, R (the score after cost), or the shaped return."""


def _in_order(sweep: str | tuple[str, ...] | None) -> str | tuple[str, ...] | None:
    """Canonical form of sweeps: one as its name, several as a sorted tuple without duplicates."""
    if not isinstance(sweep, tuple):
        return sweep
    names = tuple(sorted(set(sweep), key=str.encode))
    return names if len(names) > 1 else names[0]


def _in_order_of_bytes(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(set(names), key=str.encode))


_Several = Annotated[tuple[Name, ...], Field(min_length=1, max_length=1000)]
_OnlyEnvironment = Annotated[Name | None, Field(exclude_if=lambda environment: environment is None)]
_OnlySweep = Annotated[Name | _Several | None, Field(exclude_if=lambda sweep: sweep is None), AfterValidator(_in_order)]
_OnlyGroup = Annotated[Name | None, Field(exclude_if=lambda group: group is None)]


_Tokens = Annotated[tuple[Name, ...], Field(min_length=1, max_length=1000), AfterValidator(_in_order_of_bytes)]
Outside = Literal["none", "all"] | _Tokens
"""Which runs of agents outside a query takes: none, all, or those that the holders of these tokens began."""

_OnlyOutside = Annotated[Outside, Field(exclude_if=lambda outside: outside == "all")]


class Floor(FrozenModel):
    """The minimum of a reward that a run must have earned, in millionths."""

    reward: RewardName
    least: Micro


class Tokens(FrozenModel):
    """The tokenizer of a query: the addresses of a base model's tokenizer.json and of its chat template.

    Addresses are digests of the bytes, so a base model and a served model can be compared by them.
    """

    tokenizer: BlobAddress
    chat_template: BlobAddress


_OnlyTokens = Annotated[Tokens | None, Field(exclude_if=lambda tokens: tokens is None)]


class SftQuery(FrozenModel):
    """Rejection sampling: runs at or above `min_score` and above `floor`; optionally only the best run of each group.

    `runs` selects runs of plans (one row for each step), of a policy (rows of token ids), or demonstrations (tokenised
    with `tokens`). With `tokens`, a policy's answers of which only the text is known are tokenised, too. With
    `judged_by`, runs that no oracle graded and this judge passed are selected, and no others. `outside` says which runs
    of agents outside are taken; commands ask for none. Default values of `runs`, `floor`, `sweep`, `group`, `tokens`,
    `judged_by` and `outside` are omitted when stored, so older queries keep their digest.
    """

    kind: Literal["sft"] = "sft"
    min_score: ScoreMicro = 1_000_000
    best_of_group: bool = False
    environment: Name | None = None
    runs: Annotated[Literal["plan", "policy", "demonstration"], Field(exclude_if=lambda runs: runs == "plan")] = "plan"
    floor: Annotated[Floor | None, Field(exclude_if=lambda floor: floor is None)] = None
    sweep: _OnlySweep = None
    group: _OnlyGroup = None
    tokens: _OnlyTokens = None
    judged_by: Annotated[Name | None, Field(exclude_if=lambda judge: judge is None)] = None
    outside: _OnlyOutside = "all"

    @model_validator(mode="after")
    def _names_tokens_of_calls(self) -> Self:
        if isinstance(self.outside, tuple) and self.runs == "plan":
            raise ValueError("runs of plans are not told apart by token: expected none or all, or runs of a policy")
        return self

    @model_validator(mode="after")
    def _takes_one_channel(self) -> Self:
        if self.judged_by is not None and (self.runs == "plan" or self.floor is not None):
            raise ValueError("a judge selects runs of a policy or demonstrations, by nothing else than what it says")
        if self.judged_by is not None and self.environment is None:
            raise ValueError("a judge is calibrated on one environment: expected `environment` with `judged_by`")
        return self

    @model_validator(mode="after")
    def _tokenises_text(self) -> Self:
        if self.tokens is None and self.runs == "demonstration":
            raise ValueError("demonstrations have no token ids: expected `tokens` with them")
        if self.tokens is not None and self.runs == "plan":
            raise ValueError("plans are not tokenised: expected `tokens` with runs of a policy or demonstrations")
        return self


class DpoQuery(FrozenModel):
    """Preference pairs within a group: the chosen run earned at least `margin` millionths more than the rejected one.

    Each group gives at most `max_pairs`, those with the widest margin first. `tokens` and `outside` are those of
    SftQuery.
    """

    kind: Literal["dpo"] = "dpo"
    reward: RewardName = "score"
    margin: Annotated[int, Field(ge=1, le=10_000_000)] = 50_000
    max_pairs: Annotated[int, Field(ge=1, le=10_000)] = 4
    environment: _OnlyEnvironment = None
    sweep: _OnlySweep = None
    group: _OnlyGroup = None
    tokens: _OnlyTokens = None
    outside: _OnlyOutside = "all"


class GrpoQuery(FrozenModel):
    """Runs of groups whose rewards differ, each with its advantage.

    With `scale` group it is `(r - mean) / (std + eps)`, with none `r - mean`, which Dr. GRPO takes (Liu et al. 2025).

    `reward` is r. `ddof` 0 is the population's standard deviation, 1 the sample's. `eps` is in units of the reward, a
    decimal number with at most 12 places. `outside` is that of SftQuery.
    """

    kind: Literal["grpo"] = "grpo"
    reward: RewardName = "shaped"
    ddof: Annotated[int, Field(ge=0, le=1)] = 1
    eps: Annotated[str, Field(pattern=r"^(0|[1-9]\d{0,5})(\.\d{1,12})?$")] = "0.0001"
    scale: Annotated[Literal["group", "none"], Field(exclude_if=lambda scale: scale == "group")] = "group"
    environment: _OnlyEnvironment = None
    sweep: _OnlySweep = None
    group: _OnlyGroup = None
    outside: _OnlyOutside = "all"


Query = SftQuery | DpoQuery | GrpoQuery
"""The query of a dataset, discriminated by `kind`. `sweep` is one sweep, or several whose runs are combined."""

AnyQuery = Annotated[Query, Field(discriminator="kind")]
_QUERIES: TypeAdapter[Query] = TypeAdapter(AnyQuery)


def query_of(plain: dict[str, Any]) -> Query:
    """Parse a query from plain JSON. Raises ValidationError."""
    return _QUERIES.validate_json(json.dumps(plain))  # as JSON, which has no tuples


def is_asked_for(query: Query, environment: str, sweep: str, group: str) -> bool:
    """True if the query's environment, sweep and group filters admit runs of these."""
    sweeps = query.sweep if isinstance(query.sweep, tuple) else (query.sweep,)
    asked: tuple[tuple[tuple[str | None, ...], str], ...] = (
        ((query.environment,), environment),
        (sweeps, sweep),
        ((query.group,), group),
    )
    return all(wanted == (None,) or actual in wanted for wanted, actual in asked)


class Refused(FrozenModel):
    """The number of runs that a query considered and left out for one reason."""

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
    """The rows of one group, available as one shard by the group's name; `dataset` is their content digest."""

    type: Literal["SliceRegistered"] = "SliceRegistered"
    group: Name
    dataset: Digest
    query: AnyQuery
    upto: Count
    rows: Count
    refused: tuple[Refused, ...]
