"""Errors of the archive: the docstring is the message template."""

from __future__ import annotations

from ..errors import FlywheelError


class ArchiveMissing(FlywheelError):
    """Positions {first} to {last} were dropped from the table and must be read from the archive: expected them in {folder}, {actual}.
    Restore the folder, or name the right one with FLYWHEEL_ARCHIVE."""


class SegmentDamaged(FlywheelError):
    """The segment {segment} is damaged: {what} is {actual}, expected {expected}.
    Restore its folder from a copy; docs/verify_archive.py verifies a copy without flywheel."""


class SegmentForeign(FlywheelError):
    """The folder {folder} holds a segment of another log: {what} is {actual}, expected {expected}.
    Move it away, or name another folder with FLYWHEEL_ARCHIVE."""


class ArchiveUnwritable(FlywheelError):
    """The archive cannot be written to {folder}: {actual}. Expected a writable folder with enough free space. Segments archived so
    far are complete; the next run continues after them."""


class NotTheOwner(FlywheelError):
    """The role {actual!r} may not archive: expected the owner of the schema {schema}. Set FLYWHEEL_OWNER_URL."""


class DropRefused(FlywheelError):
    """Nothing was dropped: {actual}. Expected segments that cover positions 1 to {upto} and agree with the table. Run
    `flywheel log verify` to find the first damaged position."""


class ArchiveBusy(FlywheelError):
    """Nothing was dropped: the log could not be locked within {expected} ({actual}). Expected readers and writers to finish by then;
    try again."""
