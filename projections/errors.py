"""What a projection can answer instead of a state."""

from __future__ import annotations

from eventlog.errors import FlywheelError


class ProjectionParked(FlywheelError):
    """The projection {projection} stopped at position {position}: {actual}. Expected an event it can fold; the others go on.
    Upgrade or mend the fold, then run `flywheel replay --rebuild --projection {projection}`."""


class NotThereYet(FlywheelError):
    """Position {expected} was asked for, the projections have read up to {actual}. Ask for a position up to that, or wait."""


class UnknownProjection(FlywheelError):
    """No projection is called {actual!r}: expected one of {expected}."""


class BackwardDifference(FlywheelError):
    """Position {actual}, to start from, comes after position {expected}, to end at: expected the earlier one first. Swap them."""


class FrameDiffers(FlywheelError):
    """The frame {frame} is of version {actual} where its parts are made: expected {expected}.
    Install the same flywheel on every machine that makes parts."""


class EngineUnusable(FlywheelError):
    """Frames cannot be made on {engine}: {actual}. Expected {expected}; without an engine they are made in this process."""


class RebuildLost(FlywheelError):
    """The rebuild lost its place: {actual}. Expected the session that keeps other rebuilds away to last until the end.
    The live tables stay as they were; run the rebuild again."""
