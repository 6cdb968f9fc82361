"""Execution of tasks in Chromium: one browser per process, a separate context for each run."""

from .chromium import Chromium
from .executor import NAME, BrowserExecutor

__all__ = ["NAME", "BrowserExecutor", "Chromium"]
