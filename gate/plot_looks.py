"""Plots the path of evidence over the looks of a group sequential test."""

from __future__ import annotations

from math import log10
from typing import TYPE_CHECKING

from eventlog.events import Look

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_PICO = 10**12
_BLUE, _RED = "#2b6cb0", "#c53030"


def draw_looks(axes: Axes, looks: tuple[Look, ...]) -> None:
    """Draw the evidence at each look, the logarithm of one over p, and the boundary that it has to reach."""
    units = [look.units for look in looks]
    evidence = [_power_of_ten(look.p_value) for look in looks]
    boundary = [_power_of_ten(look.boundary) for look in looks]
    axes.plot(units, boundary, color=_RED, linestyle="--", marker="_", label="enough evidence")
    axes.plot(units, evidence, color=_BLUE, marker="o", label="evidence")
    for look, height in zip(looks, evidence, strict=True):
        axes.annotate(
            f"look {look.number}", (look.units, height), xytext=(0, 7), textcoords="offset points", ha="center"
        )
    axes.set_xlim(0, max(units) * 1.15)
    axes.set_ylim(0, max(*evidence, *boundary, 1) * 1.3)
    axes.grid(visible=True, axis="y")
    axes.legend(loc="lower right", frameon=False, fontsize=8)
    axes.set_title(f"Evidence over {len(looks)} of {looks[0].of} looks")
    axes.set_xlabel("sealed units looked at")
    axes.set_ylabel("one in 10 to the power of")


def _power_of_ten(pico: int) -> float:
    return -log10(max(pico, 1) / _PICO)
