"""Mirror the champion to a registry of models: a version for each champion there was, and an alias on the present one.

The registry keeps how far it was mirrored, so the log holds nothing of it. What is done twice gives the same.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Event
from typing import Final, Protocol

from agents.rollouts.dispatching.outages import suppress_lost_connection
from projections.champions import CHAMPION, CHAMPIONS, ChampionState

from ..house import House
from ..locks import mirroring_alone
from ..queries.champion import champion_history
from .errors import RegistryFailed

PAUSE_S: Final = 2.0
_FIRST_RETRY_S, _LONGEST_RETRY_S = 5.0, 300.0


class Registry(Protocol):
    """A registered model and one alias of it. Every method raises RegistryFailed."""

    @property
    def place(self) -> str:
        """The registry, the model and the alias in words, without any secret."""

    @property
    def whole(self) -> str:
        """The registry and the model, which one process at a time may add versions to."""

    def last_position(self) -> int:
        """The position of the last move that was mirrored; 0 if none was."""

    def ensure_version(self, champion: ChampionState) -> str:
        """The version of an artifact, which is made unless there is one."""

    def pointed_version(self) -> str | None:
        """The version that has the alias; None if none has."""

    def point(self, version: str) -> None:
        """Give the alias to a version."""

    def remember(self, position: int) -> None:
        """Keep that all moves up to a position are mirrored."""


def mirror_champion(house: House, registry: Registry, say: Callable[[str], None]) -> None:
    """Mirror every move that is not mirrored yet, and give the alias to the present champion. Raises RegistryFailed."""
    views = house.views()
    present = views.get(CHAMPIONS, CHAMPION)
    if present is None:
        return
    done = registry.last_position()
    moves = champion_history(views, after=done).history
    for champion in [change.state for change in moves if change.state is not None]:
        registry.ensure_version(champion)
    version = registry.ensure_version(present)
    if registry.pointed_version() != version:
        registry.point(version)
        say(f"{registry.place} is version {version}: {present.name}, champion since position {present.since}")
    if present.since > done:
        registry.remember(present.since)


def mirror_until(house: House, registry: Registry, say: Callable[[str], None], ended: Event) -> None:
    """Mirror each move until `ended` is set. A registry that fails is asked again, at first after 5 seconds.

    Of several processes that mirror to the same model one works; another takes over once it ends.
    """
    wait, seen = _FIRST_RETRY_S, -1
    with mirroring_alone(house.engine, registry.whole):
        while not ended.is_set():
            pause = PAUSE_S
            with suppress_lost_connection():
                head = int(house.store.head())
                try:
                    if head != seen:
                        mirror_champion(house, registry, say)
                    wait, seen = _FIRST_RETRY_S, head
                except RegistryFailed as problem:
                    say(f"{problem} Next try in {wait:g} seconds.")
                    pause, wait = wait, min(2 * wait, _LONGEST_RETRY_S)
            ended.wait(pause)
