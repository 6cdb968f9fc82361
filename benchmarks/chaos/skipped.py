"""Faults that the machine does not permit."""

from __future__ import annotations


class Skipped(Exception):
    """A fault that cannot be injected on this machine; the message is the reason."""
