"""Checks that Chromium and Playwright are installed."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

from .errors import BrowserMissing


def usable(program: Path | None) -> Path:
    """The given Chromium, after checking that it and Playwright can be run. Raises BrowserMissing."""
    if importlib.util.find_spec("playwright") is None:
        raise BrowserMissing(
            what="Playwright",
            actual="it cannot be imported",
            expected="the extra `browser`",
            way_out="pip install '.[browser]'",
        )
    if program is None or shutil.which(program) is None:
        raise BrowserMissing(
            what="Chromium",
            actual="none is on the PATH" if program is None else f"{str(program)!r} cannot be run",
            expected="chromium-headless-shell, chromium, chromium-browser or google-chrome, or a program named by"
            " FLYWHEEL_CHROMIUM",
            way_out="apt-get install chromium-headless-shell",
        )
    return program
