"""Plots the training curves as one PNG: those of loss, KL, clip fraction and reward that the training reports."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .start import Line

_SHOWN = {"loss": "loss", "kl": "KL to the reference", "clip_fraction": "share of tokens clipped", "reward": "reward"}


def draw_curves(lines: Sequence[Line], file: Path, title: str) -> None:
    """Draw one plot per measure that the steps report, stacked vertically."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    steps = [line for line in lines if line["kind"] == "step"]
    shown = [name for name in _SHOWN if any(line[name] is not None for line in steps)]
    figure: Any = Figure(figsize=(7, 1 + 1.7 * len(shown)), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(title, fontsize=10)
    for place, name in enumerate(shown, start=1):
        axes = figure.add_subplot(len(shown), 1, place)
        taken = [(line["step"], line[name]) for line in steps if line[name] is not None]
        axes.plot(*zip(*taken, strict=True), linewidth=1.2)
        axes.set_ylabel(_SHOWN[name], fontsize=8)
        axes.grid(visible=True, alpha=0.3)
    axes.set_xlabel("step", fontsize=8)
    figure.savefig(file, format="png", dpi=110)
