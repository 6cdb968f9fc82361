"""Where the browser profiles of state keys are kept between the calls of a session.

A profile is handed out with a ticket, and only the newest ticket may hand it in: a call that was given up, or played
again elsewhere, leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import Protocol

from sqlalchemy import Engine, text

from .state_keys import StateKey, plain_name

_HAND_OUT = text("""INSERT INTO profiles AS p (name, ticket) VALUES (:name, 1)
    ON CONFLICT (name) DO UPDATE SET ticket = p.ticket + 1 RETURNING ticket, body""")
_HAND_IN = text("UPDATE profiles SET body = :body, at = now() WHERE name = :name AND ticket = :ticket")


class Keeper(Protocol):
    """Keeps profiles by name."""

    def hand_out(self, name: str) -> tuple[int, bytes | None]:
        """A ticket and the profile, None at first; tickets given out before are worth nothing any more."""
        ...

    def hand_in(self, name: str, ticket: int, profile: bytes) -> bool:
        """Keep the profile; whether the ticket was the newest."""
        ...


@dataclass(frozen=True, slots=True)
class MemoryKeeper:
    """Profiles of one process."""

    _kept: dict[str, tuple[int, bytes | None]] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def hand_out(self, name: str) -> tuple[int, bytes | None]:
        """See Keeper.hand_out."""
        with self._lock:
            ticket, profile = self._kept.get(name, (0, None))
            self._kept[name] = ticket + 1, profile
            return ticket + 1, profile

    def hand_in(self, name: str, ticket: int, profile: bytes) -> bool:
        """See Keeper.hand_in."""
        with self._lock:
            is_newest = self._kept.get(name, (0, None))[0] == ticket
            if is_newest:
                self._kept[name] = ticket, profile
            return is_newest


@dataclass(frozen=True, slots=True)
class TableKeeper:
    """Profiles in the project's schema, for sessions whose calls are played on several machines."""

    engine: Engine

    def hand_out(self, name: str) -> tuple[int, bytes | None]:
        """See Keeper.hand_out."""
        with self.engine.begin() as connection:
            ticket, body = connection.execute(_HAND_OUT, {"name": name}).one()
        return ticket, None if body is None else bytes(body)

    def hand_in(self, name: str, ticket: int, profile: bytes) -> bool:
        """See Keeper.hand_in."""
        with self.engine.begin() as connection:
            values = {"name": name, "ticket": ticket, "body": profile}
            return connection.execute(_HAND_IN, values).rowcount == 1


@dataclass(slots=True)
class ProfileSlot:
    """The profile that a call works with, as its executor wrote it; what stands here at the end is kept."""

    profile: bytes | None


@dataclass(frozen=True, slots=True)
class ProfileScope:
    """Where a session is played. Each place has profiles of its own: what is kept in one is no other's to read."""

    environment: str
    sweep: str
    executor: str

    def profile_of(self, state: StateKey) -> str:
        """The name under which a session's profile is kept here."""
        here = "\n".join((self.environment, self.sweep, self.executor))
        return f"{state.profile}.{plain_name(here)}"


@contextmanager
def hold_profile(keeper: Keeper, state: StateKey, place: ProfileScope) -> Iterator[ProfileSlot]:
    """A call's profile: its session's, handed in again where the call ends without an error, or none."""
    if not state.is_kept:
        yield ProfileSlot(None)
        return
    name = place.profile_of(state)
    ticket, profile = keeper.hand_out(name)
    holding = ProfileSlot(profile)
    yield holding
    if holding.profile is not None:
        keeper.hand_in(name, ticket, holding.profile)
