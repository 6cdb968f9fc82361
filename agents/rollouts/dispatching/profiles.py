"""Storage of browser profiles between the calls of a session.

A profile is handed out with a ticket, and only the newest ticket may hand it in: a call that was given up, or played
again elsewhere, cannot overwrite the profile.
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
_DISCARD = text("DELETE FROM profiles WHERE name = :name AND ticket = :ticket")
_READ = text("SELECT body FROM profiles WHERE name = :name")
_HAND_IN = text("UPDATE profiles SET body = :body, at = now() WHERE name = :name AND ticket = :ticket")


class Keeper(Protocol):
    """Store of browser profiles by name."""

    def hand_out(self, name: str) -> tuple[int, bytes | None]:
        """Issue a ticket with the profile (None at first); it invalidates earlier tickets."""
        ...

    def hand_in(self, name: str, ticket: int, profile: bytes) -> bool:
        """Store the profile if the ticket is the newest. True if stored."""
        ...


@dataclass(frozen=True, slots=True)
class MemoryKeeper:
    """Profiles in the memory of one process."""

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

    def read_profile(self, name: str) -> bytes | None:
        """The profile as it was handed in last, without a ticket; None if there is none."""
        with self.engine.connect() as connection:
            body = connection.execute(_READ, {"name": name}).scalar_one_or_none()
        return None if body is None else bytes(body)

    def discard(self, name: str, ticket: int) -> None:
        """Delete a profile if the ticket is the newest."""
        with self.engine.begin() as connection:
            connection.execute(_DISCARD, {"name": name, "ticket": ticket})


@dataclass(slots=True)
class ProfileSlot:
    """Profile that a call works with; its value at the end of the call is stored."""

    profile: bytes | None


@dataclass(frozen=True, slots=True)
class ProfileScope:
    """Scope of a session's profiles: each environment, sweep and executor has separate profiles."""

    environment: str
    sweep: str
    executor: str

    def profile_of(self, state: StateKey) -> str:
        """Name under which a session's profile is stored in this scope."""
        here = "\n".join((self.environment, self.sweep, self.executor))
        return f"{state.profile}.{plain_name(here)}"


@contextmanager
def hold_profile(keeper: Keeper, state: StateKey, place: ProfileScope) -> Iterator[ProfileSlot]:
    """Profile of a call's session, handed in if the call ends without an error; None for independent calls."""
    if not state.is_kept:
        yield ProfileSlot(None)
        return
    name = place.profile_of(state)
    ticket, profile = keeper.hand_out(name)
    holding = ProfileSlot(profile)
    yield holding
    if holding.profile is not None:
        keeper.hand_in(name, ticket, holding.profile)
