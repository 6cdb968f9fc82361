"""Plots what may be told of a verdict while its benchmark can judge: the bands of both arms and of their difference."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eventlog.events import ArmSummary, Verdict

from .bands import Band, coarse_reasons, difference_band, success_fifth
from .explain import headline
from .plot import Kind, open_figure, write_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BLUE, _GREY, _PALE = "#2b6cb0", "#a0aec0", "#edf2f7"
_FIFTH = 0.2
_SIZE = (11.0, 3.4)
_ZONES: tuple[Band, ...] = ("worse", "about equal", "better")


def plot_bands(evaluation: str, verdict: Verdict, kind: Kind) -> bytes:
    """Render a verdict without figures of its sealed part, as SVG or PNG bytes. Raises PlotsMissing."""
    with open_figure(_SIZE) as figure:
        left, right = figure.subplots(1, 2, width_ratios=(1.3, 1))
        why = "; ".join(coarse_reasons(verdict))
        title = f"{headline(verdict)}\n{evaluation}: {verdict.decision}, {why}. Sealed figures are told in bands."
        figure.suptitle(title, x=0.01, ha="left", fontsize=11, wrap=True)
        _draw_fifths(left, verdict)
        _draw_zones(right, difference_band(verdict.mean_delta))
        return write_figure(figure, kind)


def _draw_fifths(axes: Axes, verdict: Verdict) -> None:
    """Draw the fifth in which each arm's share of passed runs lies."""
    arms = (("champion", verdict.champion, _GREY), ("challenger", verdict.challenger, _BLUE))
    for row, (_, arm, colour) in enumerate(arms):
        axes.barh([row], [1], height=0.55, color=_PALE)
        if (fifth := success_fifth(arm)) is not None:
            axes.barh([row], [_FIFTH], left=[fifth * _FIFTH], height=0.55, color=colour)
    axes.set_yticks([0, 1], [_label(name, arm) for name, arm, _ in arms])
    axes.set_ylim(1.6, -0.6)
    axes.set_xlim(0, 1)
    axes.set_xticks([place * _FIFTH for place in range(6)])
    axes.set_title("Share of sealed runs that passed, in fifths")


def _label(name: str, arm: ArmSummary) -> str:
    return f"{name}\n{arm.artifact}" if arm.runs else f"{name}\nnot compared"


def _draw_zones(axes: Axes, found: Band) -> None:
    """Draw the three bands of the mean difference, with the one in which it lies."""
    for place, zone in enumerate(_ZONES):
        axes.barh([0], [1], left=[place], height=0.5, color=_BLUE if zone == found else _PALE, edgecolor="white")
        axes.annotate(zone, (place + 0.5, 0.42), ha="center", va="top")
    axes.set_xlim(0, len(_ZONES))
    axes.set_ylim(0.6, -0.4)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_title("Mean difference" if found in _ZONES else "Mean difference: not computed")
