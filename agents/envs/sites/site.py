"""What every simulated site has in common: what one instance can be asked, and what a site hands to its server."""

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
    """What an oracle found: `score_e4` counts ten-thousandths, so that a score never has more than four decimals."""

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
    """The state of one instance, as its admin surface reads it."""

    @property
    def seed(self) -> int:
        """The seed that made this instance."""
        ...

    @property
    def mutations(self) -> Sequence[Mutation]:
        """What the agent changed since the reset, oldest first."""
        ...

    def counts(self) -> Mapping[str, int]:
        """How many of each kind of thing the instance holds."""
        ...

    def fingerprint(self) -> str:
        """`sha256:` and the digest of the state: of the seed's content and of the mutations, of nothing else."""
        ...

    def grade(self, task_id: str) -> OracleGrade:
        """Judge one of the site's tasks from the state alone."""
        ...


@dataclass(frozen=True, slots=True)
class Apps:
    """A site ready to be served: the agent's pages and the admin surface, for two ports."""

    pages: Starlette
    admin: Starlette


class AppBuilder(Protocol):
    """How a site's two apps are made."""

    def __call__(self, page_base: str, token: str, conditions: Conditions = CLEAR) -> Apps:
        """Both apps for a page address and an admin token; every instance starts under these conditions."""
        ...


@dataclass(frozen=True, slots=True)
class SiteKind:
    """A site that can be started: its tasks, and how to build it.

    `restore` makes an instance of a seed as recorded changes left it, without serving it: to be graded again.
    """

    name: str
    tasks: tuple[TaskText, ...]
    build: AppBuilder
    restore: Callable[[int, Sequence[Mutation]], Simulation]
