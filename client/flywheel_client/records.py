"""Answers of the server, as frozen records. `raw` holds the whole answer, fields of a newer server included."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeVar

MICRO = 1_000_000
"""Scores, values and costs are integers in millionths: a score of 1 is 1000000, a dollar is 1000000."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """An answer; records are equal if their answers are."""

    raw: Mapping[str, Any]

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th>{_escape(name)}</th><td>{_escape(value)}</td></tr>" for name, value in self.raw.items()
        )
        return f"<table>{rows}</table>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reward(Record):
    """Reward and cost of a run, in millionths; None is unknown."""

    score: int
    passed: bool
    value: int | None
    cost: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Run(Record):
    """A run; `reward` is None where it was not graded, and `steps` too where it is sealed and may not be told of."""

    run: str
    sweep: str
    group: str
    template: str
    environment: str
    status: str
    steps: int | None
    artifact: str
    reward: Reward | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset(Record):
    """A frozen dataset; `dataset` is its digest."""

    dataset: str
    query: Mapping[str, Any]
    upto: int
    rows: int
    groups: int
    refused: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice(Record):
    """The registered rows of one group; `dataset` is their digest."""

    group: str
    dataset: str
    query: Mapping[str, Any]
    upto: int
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Champion(Record):
    """The champion: its name, who pointed at it, why, and since which position."""

    name: str
    by: str
    reason: str
    since: int
    evaluation: str | None
    artifact: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece(Record):
    """A piece of memory with its record of wins and losses."""

    name: str
    status: str
    wins: int
    losses: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict(Record):
    """An evaluation; `decision` and `verdict` are None while its arms play."""

    evaluation: str
    benchmark: str
    decision: str | None
    verdict: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Event(Record):
    """An event of the log and its position."""

    position: int
    stream: str
    version: int
    at: str
    actor: str
    type: str
    event: Mapping[str, Any]


R = TypeVar("R", bound=Record)


def read_record(kind: type[R], plain: Mapping[str, Any], **given: Any) -> R:
    """The record of an answer; fields that the answer lacks are None."""
    values = {field.name: plain.get(field.name) for field in fields(kind) if field.name != "raw"}
    return kind(raw=plain, **{**values, **given})


def read_run(plain: Mapping[str, Any]) -> Run:
    """A run of a list."""
    graded = plain.get("reward")
    return read_record(Run, plain, reward=None if graded is None else read_record(Reward, graded))


def read_piece(plain: Mapping[str, Any]) -> Piece:
    """A piece of any kind; a rewrite has its id under another name than the others."""
    return read_record(Piece, plain, name=plain.get("piece", plain.get("rewrite")))


def _escape(value: object) -> str:
    return str(value).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
