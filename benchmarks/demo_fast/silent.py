"""A reporter without output, for worker processes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from api.reporter import Advance


class Silent:
    """A reporter that prints nothing."""

    @contextmanager
    def phase(self, title: str, total: int) -> Iterator[Advance]:  # noqa: ARG002 a Reporter's
        """See Reporter.phase."""
        yield lambda **_: None

    def say(self, text: str) -> None:
        """See Reporter.say."""
