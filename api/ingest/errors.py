"""What a sender of traces, or the user of `flywheel import`, can be told."""

from __future__ import annotations

from eventlog.errors import FlywheelError


class BadTraces(FlywheelError):
    """The body is {actual}: expected {expected}. Nothing was written."""


class TracesTooLarge(FlywheelError):
    """The spans have {actual}: expected at most {expected} bytes in one request, and nothing was written. Send fewer spans at a time, or
    have FLYWHEEL_TRACE_BYTES raised where `flywheel serve` runs."""


class UnreadableTwice(FlywheelError):
    """{file} is no regular file: expected one, because files are read twice, first to check all lines. Write it to disk and import that."""


class BadLine(FlywheelError):
    """{file}, line {line}: {actual}; expected {expected}. Mend the line and import the file again: what is recorded already changes nothing."""
