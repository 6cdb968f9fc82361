"""Sessions of browsers, kept in the memory of the serving process: a restart asks everybody to sign in again.

A cookie holds a random name; the process keeps only its hash, so that a copy of its memory lets nobody in. The token
itself is not kept: its holder is looked up by name on each request, so a revoked token ends its sessions at once.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections import OrderedDict
from dataclasses import dataclass, field
from threading import Lock
from time import monotonic

LIFETIME_S = 12 * 3600
"""A session ends so many seconds after signing in."""

MOST = 1_000
"""Sessions that are kept; the oldest ends where one more begins."""

_BYTES = 32


@dataclass(frozen=True, slots=True)
class DashboardSession:
    """Name of the token that signed in, the secret of the session's forms, and when it ends."""

    token: str
    csrf: str
    ends: float

    def accepts(self, presented: str) -> bool:
        """True if a form carries the session's secret."""
        return hmac.compare_digest(self.csrf.encode(), presented.encode(errors="replace"))


@dataclass(frozen=True, slots=True)
class Sessions:
    """The sessions of one process, by the hash of their names. For many threads."""

    _kept: OrderedDict[str, DashboardSession] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def open(self, token: str) -> str:
        """Begin a session for the holder of a token and return its name, for the cookie."""
        name = secrets.token_urlsafe(_BYTES)
        session = DashboardSession(token, secrets.token_urlsafe(_BYTES), monotonic() + LIFETIME_S)
        with self._lock:
            self._kept[_hash(name)] = session
            while len(self._kept) > MOST:
                self._kept.popitem(last=False)
        return name

    def find(self, name: str) -> DashboardSession | None:
        """The session of a name that has not ended, or None."""
        with self._lock:
            found = self._kept.get(_hash(name))
            if found is not None and found.ends <= monotonic():
                del self._kept[_hash(name)]
                found = None
        return found

    def close(self, name: str) -> None:
        """End a session; one that is not there is left alone."""
        with self._lock:
            self._kept.pop(_hash(name), None)


def _hash(name: str) -> str:
    return hashlib.sha256(name.encode(errors="replace")).hexdigest()
