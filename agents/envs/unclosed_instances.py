"""Closing instances that are not needed any more. A site that keeps them may run out of room for others."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from .addresses import shown_in, without_instances
from .contract import Instance
from .environment import Environment
from .errors import EnvironmentFailure

_LOG = logging.getLogger(__name__)


class Unclosed:
    """Number of instances whose close failed since this process started."""

    def __init__(self) -> None:
        self._number = 0
        self._lock = Lock()

    @property
    def number(self) -> int:
        """The number up to this moment."""
        return self._number

    def add(self) -> None:
        """Count one more."""
        with self._lock:
            self._number += 1


UNCLOSED = Unclosed()
"""The count of this process."""


def close_or_count(environment: Environment, instance: Instance) -> None:
    """Close an instance. A failure is logged and counted, and not raised: what was done with the instance stands."""
    with count_unclosed(instance.instance):
        environment.close(instance)


@contextmanager
def count_unclosed(instance: str) -> Iterator[None]:
    """Log and count a failure to close the instance of this id, and suppress it."""
    try:
        yield
    except EnvironmentFailure as failure:
        UNCLOSED.add()
        why = without_instances(shown_in(str(failure)), instance)
        _LOG.warning("an instance was not closed, so its site may keep it: %s", why)
