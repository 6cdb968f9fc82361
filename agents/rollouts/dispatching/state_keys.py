"""State keys: what a call may share with others. Pure.

A key stands for a browser profile and a point to resume from. A session's calls share both, one after another; an
independent call gets a key of its own, and what it leaves behind is kept for nobody.
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
    """A resolved state key. `is_kept` says whether what the call leaves behind is there for the key's next call."""

    key: str
    is_kept: bool

    @property
    def profile(self) -> str:
        """The name of the browser profile that the key stands for; two keys never share one."""
        return plain_name(self.key)

    @property
    def resume(self) -> str:
        """The name of the point that the key's next call goes on from."""
        return f"{self.profile}@last"


def plain_name(text: str, longest: int = LONGEST_STEM) -> str:
    """A text as a name for files and channels: other characters become `_`, a short digest tells equal ones apart."""
    return f"{_ODD.sub('_', text)[:longest]}-{sha256(text.encode()).hexdigest()[:12]}"


def session(key: str) -> StateKey:
    """The state of a session's call."""
    return StateKey(key, is_kept=True)


def independent(run: str) -> StateKey:
    """The state of a call that shares nothing, known by the run it plays."""
    return StateKey(f"{_AUTO}-{run}", is_kept=False)


def resolve_keys(keys: Sequence[tuple[str | None, bool]]) -> tuple[StateKey, ...]:
    """The states of calls, each given as its key and whether it is of a session, in order of submission.

    Independent ones are numbered (`auto-0001`, or `KEY-0001` where they name a key); no session's key is taken.
    """
    taken = {key for key, is_session in keys if is_session and key is not None}
    numbers = count(1)
    return tuple(
        session(key) if is_session and key is not None else _fresh(key or _AUTO, numbers, taken)
        for key, is_session in keys
    )


def _fresh(stem: str, numbers: count[int], taken: Collection[str]) -> StateKey:
    return next(StateKey(key, is_kept=False) for n in numbers if (key := f"{stem}-{n:04d}") not in taken)
