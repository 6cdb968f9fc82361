"""A reporter for processes that nobody watches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Silent:
    """Shows nothing."""

    @contextmanager
    def phase(self, title: str, total: int) -> Iterator[Callable[[], None]]:  # noqa: ARG002 a Reporter's
        """See Reporter.phase."""
        yield lambda: None

    def say(self, text: str) -> None:
        """See Reporter.say."""
