"""The server's settings, as text."""

from __future__ import annotations

from pathlib import Path

from .layout import PORT

INCLUDE = "\n# Flywheel's settings, written anew at each start.\ninclude '../flywheel.conf'\n"

SETTINGS = {
    "listen_addresses": "",
    "port": str(PORT),
    "unix_socket_permissions": "0700",
    "password_encryption": "scram-sha-256",
    "hot_standby": "off",  # a restored backup is open once it is whole, never read-only before
    "max_connections": "100",
    "shared_buffers": "128MB",
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "wal_compression": "pglz",
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_destination": "stderr",
    "logging_collector": "off",
    "log_line_prefix": "%m [%p] %q%u@%d ",
}


def configuration(sockets: Path) -> str:
    """Return the text of our settings file for a server with its socket in the given folder."""
    listed = '"' + str(sockets).replace('"', '""') + '"'
    settings = {"unix_socket_directories": listed, **SETTINGS}
    return "".join(f"{name} = {_quote(value)}\n" for name, value in settings.items())


def _quote(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"
