"""A folder that is moved to its place whole, whoever else makes the same."""

from __future__ import annotations

import os
from errno import EEXIST, ENOTEMPTY
from pathlib import Path


def move_in(making: Path, place: Path) -> None:
    """Move a folder to its place whole. Where another process was first, what it made stays: look at it then."""
    try:
        os.replace(making, place)  # noqa: PTH105 atomic
    except OSError as error:
        if error.errno not in {ENOTEMPTY, EEXIST}:
            raise
