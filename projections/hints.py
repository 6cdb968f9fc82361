"""Hints: where something was seen that a step needs."""

from __future__ import annotations

from .pieces import Recording, fold_of

HINTS = fold_of("hints", 1, "hint", Recording("HintRecorded", id="hint", rank="confidence"))
