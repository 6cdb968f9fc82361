"""Errors of projections: the docstring is the message template."""

from __future__ import annotations

from eventlog.errors import FlywheelError


class ProjectionParked(FlywheelError):
    """The projection {projection} is parked at position {position}: {actual}. Expected an event that it can fold; other projections
    continue. Upgrade or fix the fold, then run `flywheel replay --rebuild --projection {projection}`."""


class NotThereYet(FlywheelError):
    """Position {expected} is not available yet: the projections have read up to position {actual}. Expected a position up to that;
    ask for an earlier one, or wait."""


class UnknownProjection(FlywheelError):
    """There is no projection named {actual!r}: expected one of {expected}."""


class BackwardDifference(FlywheelError):
    """The start position {actual} comes after the end position {expected}: expected the earlier one first. Swap them."""


class FrameDiffers(FlywheelError):
    """The frame {frame} is of version {actual} on the machine that computes its parts: expected version {expected}.
    Install the same flywheel on every machine of the engine."""


class EngineUnusable(FlywheelError):
    """Frames cannot be made on {engine}: {actual}. Expected {expected}. Without an engine, frames are computed in this process."""


class RebuildLost(FlywheelError):
    """The rebuild was aborted: {actual}. Expected the session that holds the rebuild lock to stay open, and its new tables to remain.
    The live tables are unchanged; run the rebuild again."""
