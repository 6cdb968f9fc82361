"""What the outside can be told when something cannot be done."""

from __future__ import annotations

from eventlog.errors import FlywheelError


class BadSetting(FlywheelError):
    """The environment variable {name} is {actual!r}: {expected}."""


class Unknown(FlywheelError):
    """No {what} is called {actual!r}. {way_out}"""


class NotSetUp(FlywheelError):
    """There is no database under {actual} yet; run `flywheel db up`, or set FLYWHEEL_DATABASE_URL."""


class PortInUse(FlywheelError):
    """The port {actual} on {host} is taken: expected a free one; stop what listens there, or choose another with --port."""
