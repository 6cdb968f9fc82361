"""What keeps a browser from being used at all."""

from __future__ import annotations

from eventlog.errors import FlywheelError


class BrowserNotStarted(FlywheelError):
    """Chromium at {path} did not start: {actual}. Expected it to run headless, with its sandbox where it is not root's.
    Try it by hand: {path} --headless --disable-gpu --dump-dom about:blank"""
