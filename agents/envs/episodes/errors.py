"""Errors of environments that are no web sites."""

from __future__ import annotations

from eventlog.errors import FlywheelError


class LibraryMissing(FlywheelError):
    """The environment {environment} needs the library {actual}, which is not installed: expected {expected}.
    Install it with `pip install "flywheel[{expected}]"`."""


class UnknownEnvironment(FlywheelError):
    """The environment {environment} cannot be made: {actual}; expected {expected}."""

    is_usage = True
