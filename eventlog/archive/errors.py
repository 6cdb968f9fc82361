"""What can be wrong with an archive, each with its way out."""

from __future__ import annotations

from ..errors import FlywheelError


class ArchiveMissing(FlywheelError):
    """Positions {first} to {last} were dropped from the table and are archived: expected them in {folder}, {actual}.
    Bring the folder back, or name the right one with FLYWHEEL_ARCHIVE."""


class SegmentDamaged(FlywheelError):
    """The segment {segment} is damaged: {what} is {actual}, expected {expected}.
    Restore its folder from a copy; docs/verify_archive.py checks one without this program."""


class SegmentForeign(FlywheelError):
    """The folder {folder} holds a segment of another log: {what} is {actual}, expected {expected}.
    Move it away, or name another folder with FLYWHEEL_ARCHIVE."""


class ArchiveUnwritable(FlywheelError):
    """The archive cannot be written to {folder}: {actual}. Expected a folder with room in it that this user may write to; what
    was archived before is whole, and running it again goes on from there."""


class NotTheOwner(FlywheelError):
    """The role {actual!r} may not archive: expected the owner of the schema {schema}; set FLYWHEEL_OWNER_URL."""


class DropRefused(FlywheelError):
    """Nothing was dropped: {actual}. Expected segments that cover the positions 1 to {upto} and say what the table says; run
    `flywheel log verify` to see how far the log is sound."""


class ArchiveBusy(FlywheelError):
    """Nothing was dropped: the log was read or appended to for longer than {expected}, {actual}; try again."""
