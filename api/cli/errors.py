"""Errors of commands that ask a server. The docstring of an error is its message."""

from __future__ import annotations

from eventlog.errors import FlywheelError


class ServerSilent(FlywheelError):
    """{server} does not answer ({actual}): expected a running `flywheel serve`; name its address with --server."""


class ServerSlow(FlywheelError):
    """{server} has sent nothing of {path} for {seconds} s. Rows of a dataset that it has made it keeps, so ask again in
    a while; ask for less, with --limit or an earlier --as-of; or run the command where the log is.
    """


class ServerRefused(FlywheelError):
    """{message} ({server} answered {status})"""


class ServerForeign(FlywheelError):
    """{server} answered {actual}, which this version of flywheel cannot read: expected {expected} of the same version."""


class TokenUnset(FlywheelError):
    """A server answers only holders of a token: expected one in FLYWHEEL_TOKEN. `flywheel token issue NAME --role read`
    prints one where the log is.
    """
