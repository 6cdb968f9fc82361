"""State keys: the state that a call shares with other calls. Pure.

A key names a browser profile and a point to resume from. A session's calls share both, one after another; an
independent call gets a new key, and its state is discarded.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import count

LONGEST_STEM = 64
_ODD = re.compile(r"[^A-Za-z0-9_.-]+")
_AUTO = "auto"


@dataclass(frozen=True, slots=True)
class StateKey:
    """A resolved state key. `is_kept` is True if the call's state is stored for the key's next call."""

    key: str
    is_kept: bool

    @property
    def profile(self) -> str:
        """Name of the key's browser profile; two keys never share one."""
        return plain_name(self.key)

    @property
    def resume(self) -> str:
        """Name of the point that the key's next call resumes from."""
        return f"{self.profile}@last"


def plain_name(text: str, longest: int = LONGEST_STEM) -> str:
    """A text as a name for files and channels: other characters become `_`, a short digest keeps names distinct."""
    return f"{_ODD.sub('_', text)[:longest]}-{sha256(text.encode()).hexdigest()[:12]}"


def session(key: str) -> StateKey:
    """State key of a session's call."""
    return StateKey(key, is_kept=True)


def independent(run: str) -> StateKey:
    """State key of an independent call, named after its run."""
    return StateKey(f"{_AUTO}-{run}", is_kept=False)


def resolve_keys(keys: Sequence[tuple[str | None, bool]]) -> tuple[StateKey, ...]:
    """State keys of calls, each given as (key, True if part of a session), in order of submission.

    Independent calls are numbered (`auto-0001`, or `KEY-0001` if they have a key); keys of sessions are skipped.
    """
    taken = {key for key, is_session in keys if is_session and key is not None}
    numbers = count(1)
    return tuple(
        session(key) if is_session and key is not None else _fresh(key or _AUTO, numbers, taken)
        for key, is_session in keys
    )


def _fresh(stem: str, numbers: count[int], taken: Collection[str]) -> StateKey:
    return next(StateKey(key, is_kept=False) for n in numbers if (key := f"{stem}-{n:04d}") not in taken)
