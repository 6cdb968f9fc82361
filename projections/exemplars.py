"""Exemplars: what good runs did at a step, ranked by their reward."""

from __future__ import annotations

from .pieces import Recording, fold_of

EXEMPLARS = fold_of(
    "exemplars", 1, "exemplar", Recording("ExemplarCaptured", id="exemplar", rank="reward", form="form")
)
