"""Errors of starting a browser."""

from __future__ import annotations

from eventlog.errors import FlywheelError


class BrowserNotStarted(FlywheelError):
    """Chromium at {path} did not start: {actual}. Expected it to run headless, with its sandbox unless started by root.
    To see why, run {path} --headless --disable-gpu --dump-dom about:blank"""
