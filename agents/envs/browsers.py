"""What has to be installed before a Chromium can be driven, whoever drives it."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

from .errors import BrowserMissing


def usable(program: Path | None) -> Path:
    """The Chromium that was named or found, if it and Playwright are there. Raises BrowserMissing."""
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
            expected="chromium, chromium-browser or google-chrome, or the one that FLYWHEEL_CHROMIUM names",
            way_out="apt-get install chromium",
        )
    return program
