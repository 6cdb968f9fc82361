"""Owner of a run from outside: the holder of a token, who opened it through the proxy or by an append."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from threading import Lock
from typing import Final

from eventlog.postgres import PostgresStore

from .errors import OthersRun

_REMEMBERED: Final = 4096


def api_actor(token: str) -> str:
    """The actor of what the holder of a token appends over REST."""
    return f"api:{token}"


def proxy_actor(token: str) -> str:
    """The actor of the model calls that the holder of a token sends through the proxy."""
    return f"proxy:{token}"


def trace_actor(token: str) -> str:
    """The actor of what is made of the spans that the holder of a token sends."""
    return f"otel:{token}"


def actors_of(token: str) -> frozenset[str]:
    """The actors under which the holder of a token opens runs."""
    return frozenset({api_actor(token), proxy_actor(token), trace_actor(token)})


@dataclass
class RunOpeners:
    """The opener of each run. Remembers those asked for last, because an opener never changes. Thread-safe."""

    store: PostgresStore
    _known: OrderedDict[str, str] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def find(self, run: str) -> str | None:
        """The actor of a run's first event; None if it has none."""
        with self._lock:
            known = self._known.get(run)
        if known is not None:
            return known
        first = self.store.first_of(f"run/{run}")
        if first is None:
            return None
        with self._lock:
            self._known[run] = first.actor
            while len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        return first.actor


def refuse_others(run: str, opener: str, token: str) -> None:
    """Raise OthersRun unless the holder of a token opened the run."""
    if opener not in actors_of(token):
        raise OthersRun(run=run, or_role=", or one of the role operate or above")
