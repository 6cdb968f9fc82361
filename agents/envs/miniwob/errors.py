"""Errors of the MiniWoB++ environments."""

from __future__ import annotations

from eventlog.errors import FlywheelError


class PagesMissing(FlywheelError):
    """The pages of MiniWoB++ are missing: {actual}. Expected the folder `html` of the distribution miniwob.
    `make setup` installs it, and so does `pip install --no-deps --requirement requirements/miniwob.txt`."""


class UnknownPage(FlywheelError):
    """There is no MiniWoB++ task {actual!r}: expected one of {expected}."""
