"""The site that commands take where none is named. It stands alone, because importing the sites takes long."""

from __future__ import annotations

from typing import Final

FIRST: Final = "marketplace"
"""The first of the bundled sites."""
