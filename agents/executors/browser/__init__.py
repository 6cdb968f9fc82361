"""A task done in Chromium: one browser for a process, a context of its own for each run."""

from .chromium import Chromium
from .executor import NAME, BrowserExecutor

__all__ = ["NAME", "BrowserExecutor", "Chromium"]
