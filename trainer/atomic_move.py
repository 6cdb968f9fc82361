"""Atomic move of a finished folder into place, safe against concurrent producers of the same folder."""

from __future__ import annotations

import os
from errno import EEXIST, ENOTEMPTY
from pathlib import Path


def move_in(making: Path, place: Path) -> None:
    """Move a folder into place atomically. If another process was first, its folder stays: the caller must check it."""
    try:
        os.replace(making, place)  # noqa: PTH105 atomic
    except OSError as error:
        if error.errno not in {ENOTEMPTY, EEXIST}:
            raise
