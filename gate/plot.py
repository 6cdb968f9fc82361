"""Plots a drawing as SVG or PNG with reproducible bytes: differences by template, null distribution, interval, costs.

Matplotlib is an optional extra and imported on use; its local configuration is not read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import TYPE_CHECKING, Literal

from eventlog.events import ArmSummary, Verdict

from .drawing import Dots, Drawing
from .errors import PlotsMissing
from .explain import headline
from .figures import count_noun, decimal, dollars, probability, shorten_tiny
from .plot_looks import draw_looks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Kind = Literal["svg", "png"]

_MICRO = 1_000_000
_BLUE, _ORANGE, _GREY, _RED = "#2b6cb0", "#dd6b20", "#a0aec0", "#c53030"
_STYLE = {
    "axes.axisbelow": True,
    "axes.edgecolor": "#718096",
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "font.size": 9,
    "grid.color": "#e2e8f0",
    "svg.hashsalt": "flywheel",
    "text.parse_math": False,
}
_METADATA: dict[Kind, dict[str, str | None]] = {
    "svg": {"Date": None, "Creator": "flywheel"},
    "png": {"Software": "flywheel"},
}
_WIDTH, _HEIGHT, _ROW = 11.0, 4.6, 0.34
"""Width and height of the picture in inches, and the height that each template adds."""

_BINS = 41
_DOT = 40


def plot(drawing: Drawing, kind: Kind) -> bytes:
    """Render the drawing as SVG or PNG bytes. Raises PlotsMissing."""
    above = 1.2 + _ROW * max(len(drawing.templates), 3)
    with open_figure((_WIDTH, _HEIGHT + above - 1.2)) as figure:
        axes = figure.subplots(2, 2, height_ratios=(above, 1.5), width_ratios=(1.1, 1))
        figure.suptitle(f"{headline(drawing.verdict)}\n{_title(drawing)}", x=0.01, ha="left", fontsize=11)
        _draw_templates(axes[0, 0], drawing.templates)
        if drawing.verdict.looks:
            draw_looks(axes[0, 1], drawing.verdict.looks)
        else:
            _draw_null(axes[0, 1], drawing)
        _draw_interval(axes[1, 0], drawing.verdict)
        _draw_costs(axes[1, 1], drawing.verdict)
        return write_figure(figure, kind)


@contextmanager
def open_figure(size: tuple[float, float]) -> Iterator[Figure]:
    """An empty figure of this width and height in inches, in the style of all pictures. Raises PlotsMissing."""
    try:
        from matplotlib import style  # noqa: PLC0415 an extra, imported on use
        from matplotlib.figure import Figure  # noqa: PLC0415 an extra, imported on use
    except ImportError as error:
        raise PlotsMissing(expected="the extra `plots`", way_out="'flywheel[plots]'") from error
    with style.context(["default", _STYLE]):
        yield Figure(figsize=size, dpi=120, layout="constrained")


def write_figure(figure: Figure, kind: Kind) -> bytes:
    """The bytes of a figure, the same for the same content."""
    written = BytesIO()
    figure.savefig(written, format=kind, metadata=_METADATA[kind])
    return written.getvalue()


def _title(drawing: Drawing) -> str:
    verdict, (champion, challenger) = drawing.verdict, drawing.missing
    arms = f"{verdict.challenger.artifact} against {verdict.champion.artifact}"
    missing = (
        f"missing runs: champion {champion}, challenger {challenger}" if champion or challenger else "none missing"
    )
    return (
        f"{drawing.evaluation}: {verdict.decision}; {arms}, {count_noun(verdict.pairs, 'sealed instance')}, {missing}"
    )


def _draw_templates(axes: Axes, templates: tuple[Dots, ...]) -> None:
    """Draw one row per template, the first on top: a dot per difference, sized by its number of instances."""
    largest = max(amount for dots in templates for _, amount in dots.counts)
    for row, dots in enumerate(templates):
        values = [value / _MICRO for value, _ in dots.counts]
        sizes = [_DOT + 9 * _DOT * amount / largest for _, amount in dots.counts]
        axes.scatter(values, [row] * len(values), s=sizes, color=_BLUE, alpha=0.45, linewidths=0)
        for value, (_, amount) in zip(values, dots.counts, strict=True):
            if amount > 1:
                axes.annotate(str(amount), (value, row), ha="center", va="center", fontsize=7)
        axes.plot([dots.mean / _MICRO] * 2, [row - 0.38, row + 0.38], color=_ORANGE, linewidth=2)
    axes.axvline(0, color=_GREY, linewidth=1)
    axes.set_yticks(range(len(templates)), [dots.template for dots in templates])
    axes.set_ylim(len(templates) - 0.4, -0.6)
    axes.set_xlim(-1.12, 1.12)
    axes.grid(visible=True, axis="x")
    axes.set_title("Differences by template")
    axes.set_xlabel("challenger minus champion per instance (bar: mean)")


def _draw_null(axes: Axes, drawing: Drawing) -> None:
    """Draw the null distribution of means under random sign flips, and the observed mean."""
    verdict, observed = drawing.verdict, drawing.observed / _MICRO
    reach = max(abs(observed), *(abs(mean) / _MICRO for mean in drawing.null)) * 1.08 or 1.0
    width = 2 * reach / _BINS
    bins = Counter(min(int((mean / _MICRO + reach) / width), _BINS - 1) for mean in drawing.null)
    centres = [(place + 0.5) * width - reach for place in sorted(bins)]
    shares = [bins[place] / len(drawing.null) for place in sorted(bins)]
    axes.bar(centres, shares, width=width * 0.94, color=_GREY)
    axes.axvline(observed, color=_ORANGE, linewidth=2)
    axes.set_xlim(-reach, reach)
    axes.set_ylim(0, max(shares) * 1.3)
    side = "right" if observed > 0 else "left"
    axes.annotate(
        f"observed {decimal(drawing.observed)}\n{_evidence(verdict)}",
        (observed, max(shares) * 1.27),
        xytext=(-6 if side == "right" else 6, 0),
        textcoords="offset points",
        ha=side,
        va="top",
    )
    axes.grid(visible=True, axis="y")
    axes.set_title("Null distribution of the mean")
    axes.set_xlabel("mean difference with signs flipped at random")
    axes.set_ylabel("share of draws")


def _evidence(verdict: Verdict) -> str:
    alpha = f"alpha {decimal(verdict.alpha)}"
    if verdict.p_value is not None:
        return f"p {shorten_tiny(probability(verdict.p_value))}, {alpha}"
    if verdict.e_value is not None:
        return f"e {decimal(verdict.e_value)}, {alpha}"
    return "not used for the decision"


def _draw_interval(axes: Axes, verdict: Verdict) -> None:
    """Draw the mean difference and its interval, with lines at zero and at the required margin."""
    margin, mean = verdict.rules.min_mean_delta / _MICRO, (verdict.mean_delta or 0) / _MICRO
    low, high = (mean, mean) if verdict.interval is None else _ends(verdict)
    axes.plot([low, high], [0, 0], color=_BLUE, linewidth=3, solid_capstyle="butt")
    axes.plot([mean], [0], "o", color=_BLUE, markersize=9)
    axes.axvline(0, color=_GREY, linewidth=1, label="no difference")
    axes.axvline(
        margin, color=_RED, linewidth=1.5, linestyle="--", label=f"margin {decimal(verdict.rules.min_mean_delta)}"
    )
    for value, text in ((low, f"{low:.3f}"), (high, f"{high:.3f}")):
        axes.annotate(text, (value, 0), xytext=(0, 9), textcoords="offset points", ha="center")
    span = max(high, margin, 0.0) - min(low, 0.0) or 1.0
    axes.set_xlim(min(low, 0.0) - span * 0.15, max(high, margin, 0.0) + span * 0.15)
    axes.set_ylim(-1, 1)
    axes.set_yticks([])
    axes.grid(visible=True, axis="x")
    axes.legend(loc="lower right", frameon=False, fontsize=8, ncols=2)
    axes.set_title("Mean difference and 95 % interval")


def _ends(verdict: Verdict) -> tuple[float, float]:
    interval = verdict.interval
    return (0.0, 0.0) if interval is None else (interval.low / _MICRO, interval.high / _MICRO)


def _draw_costs(axes: Axes, verdict: Verdict) -> None:
    """Draw the compared costs of both arms, with the maximum allowed for the challenger."""
    arms = (("champion", verdict.champion, _GREY), ("challenger", verdict.challenger, _BLUE))
    for row, (_, arm, colour) in enumerate(arms):
        axes.barh([row], [(arm.compared_cost or 0) / _MICRO], height=0.55, color=colour)
    champion = verdict.champion.compared_cost or 0
    allowed = champion * verdict.rules.max_cost_ratio / _MICRO**2
    if allowed:
        text = f"at most {decimal(verdict.rules.max_cost_ratio)} times"
        axes.axvline(allowed, color=_RED, linewidth=1.5, linestyle="--", label=text)
        axes.legend(loc="lower left", frameon=False, fontsize=8)
    longest = max(allowed, *((arm.compared_cost or 0) / _MICRO for _, arm, _ in arms))
    axes.set_xlim(0, longest * 1.1 or 1.0)
    axes.set_ylim(2.1, -0.6)
    axes.set_yticks([0, 1], [_label_cost(name, arm) for name, arm, _ in arms])
    axes.grid(visible=True, axis="x")
    over = "all pairs" if verdict.rules.cost_basis == "all_pairs" else "pairs that both passed"
    axes.set_title("Cost")
    axes.set_xlabel(f"dollars, over {over}")


def _label_cost(name: str, arm: ArmSummary) -> str:
    return f"{name}: {dollars(arm.compared_cost)}\nall runs: {dollars(arm.cost)}"
