"""What a machine forbids is left out by name."""

from __future__ import annotations


class Skipped(Exception):
    """A fault that cannot be made here; the message is the reason."""
