"""Interfaces of a simulated site: the state of an instance, and the apps that are served."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from pydantic import JsonValue
from starlette.applications import Starlette

from ..contract import Mutation, TaskText
from .conditions import CLEAR, Conditions

FULL: Final = 10_000


@dataclass(frozen=True, slots=True)
class OracleGrade:
    """An oracle's grade; `score_e4` is in ten-thousandths, so that a score never has more than four decimals."""

    passed: bool
    score_e4: int
    reasons: tuple[str, ...]
    diff: Mapping[str, JsonValue]


def f1_e4(*, hits: int, wrong: int, missing: int) -> int:
    """F1 = 2·hits / (2·hits + wrong + missing) in ten-thousandths, rounded half up; 0 without a hit."""
    if hits == 0:
        return 0
    whole = 2 * hits + wrong + missing
    return (4 * hits * FULL + whole) // (2 * whole)


class Simulation(Protocol):
    """State of one instance, as its admin surface reads it."""

    @property
    def seed(self) -> int:
        """Seed of the instance."""
        ...

    @property
    def mutations(self) -> Sequence[Mutation]:
        """Changes made by the agent since the reset, oldest first."""
        ...

    def counts(self) -> Mapping[str, int]:
        """Number of objects of each kind in the instance."""
        ...

    def fingerprint(self) -> str:
        """`sha256:` and the digest of the seed's content and of the mutations."""
        ...

    def grade(self, task_id: str) -> OracleGrade:
        """Grade one of the site's tasks from the state alone."""
        ...


@dataclass(frozen=True, slots=True)
class Apps:
    """A built site: the agent's pages and the admin surface, for two ports."""

    pages: Starlette
    admin: Starlette


class AppBuilder(Protocol):
    """Builder of a site's two apps."""

    def __call__(self, page_base: str, token: str, conditions: Conditions = CLEAR) -> Apps:
        """Build both apps for a page address and an admin token; every instance starts under these conditions."""
        ...


@dataclass(frozen=True, slots=True)
class SiteKind:
    """A site that can be started: its tasks and its builder.

    `restore` rebuilds an instance from its seed and recorded changes without serving it, to grade it again.
    """

    name: str
    tasks: tuple[TaskText, ...]
    build: AppBuilder
    restore: Callable[[int, Sequence[Mutation]], Simulation]
