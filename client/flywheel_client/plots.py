"""Pictures for notebooks, as SVG that needs no library: shares with their intervals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import sqrt

from .records import Piece, Record, Run, _escape

WIDTH, LABEL, ROW = 640, 240, 24
_Z = 1.96
_BLUE, _GREY, _INK = "#2b6cb0", "#a0aec0", "#2d3748"


@dataclass(frozen=True, slots=True)
class Share:
    """How many of so many, with a 95 % Wilson interval from `low` to `high`, each from 0 to 1."""

    label: str
    hits: int
    total: int

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % Wilson interval."""
        if self.total == 0:
            return 0.0, 1.0
        rate, square = self.hits / self.total, _Z * _Z / self.total
        middle, reach = rate + square / 2, _Z * sqrt(rate * (1 - rate) / self.total + square / (4 * self.total))
        return max(0.0, (middle - reach) / (1 + square)), min(1.0, (middle + reach) / (1 + square))


@dataclass(frozen=True, slots=True)
class Plot:
    """A picture that a notebook shows; `svg` is its text, `shares` what it shows."""

    title: str
    shares: tuple[Share, ...]

    @property
    def svg(self) -> str:
        """The picture as SVG."""
        rows = "".join(_draw_row(number, share) for number, share in enumerate(self.shares))
        height = ROW * (len(self.shares) + 2) + 8
        ticks = "".join(
            f'<line x1="{_x(part)}" x2="{_x(part)}" y1="{ROW}" y2="{height - ROW}" stroke="#e2e8f0"/>'
            f'<text x="{_x(part)}" y="{height - 8}" text-anchor="middle">{part:.0%}</text>'
            for part in (0, 0.25, 0.5, 0.75, 1)
        )
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" role="img"'
            f' font-family="sans-serif" font-size="12" fill="{_INK}"><title>{_escape(self.title)}</title>'
            f'<text x="0" y="14" font-weight="bold">{_escape(self.title)}</text>{ticks}{rows}</svg>'
        )

    def _repr_svg_(self) -> str:
        return self.svg


def plot_items(items: Iterable[Record]) -> Plot:
    """Runs: how many passed of those graded, by template. Pieces: how many trials were won. Raises TypeError."""
    found = list(items)
    runs = [item for item in found if isinstance(item, Run)]
    pieces = [item for item in found if isinstance(item, Piece)]
    if len(runs) + len(pieces) < len(found):
        raise TypeError(f"there is no picture of {type(found[0]).__name__}; expected runs or pieces of memory")
    if pieces:
        shares = [Share(piece.name, piece.wins, piece.wins + piece.losses) for piece in pieces]
        return Plot("Trials won, with 95 % intervals", tuple(share for share in shares if share.total))
    return Plot("Graded runs that passed, with 95 % intervals", tuple(_shares_of_runs(runs)))


def _shares_of_runs(runs: Sequence[Run]) -> Iterable[Share]:
    graded = [(run.template, run.reward.passed) for run in runs if run.reward is not None]
    totals = Counter(template for template, _ in graded)
    hits = Counter(template for template, passed in graded if passed)
    return (Share(template, hits[template], total) for template, total in sorted(totals.items()))


def _draw_row(number: int, share: Share) -> str:
    middle = ROW * (number + 1) + ROW / 2
    low, high = share.interval
    rate = share.hits / share.total
    label = share.label if len(share.label) <= 36 else f"{share.label[:35]}…"  # noqa: PLR2004 what fits beside the bars
    return (
        f'<text x="{LABEL - 8}" y="{middle + 4}" text-anchor="end">{_escape(label)}</text>'
        f'<rect x="{_x(0)}" y="{middle - 7}" width="{_x(rate) - _x(0):.1f}" height="14" fill="{_BLUE}" opacity=".35"/>'
        f'<line x1="{_x(low)}" x2="{_x(high)}" y1="{middle}" y2="{middle}" stroke="{_GREY}" stroke-width="2"/>'
        f'<circle cx="{_x(rate)}" cy="{middle}" r="4" fill="{_BLUE}"/>'
        f'<text x="{WIDTH - 2}" y="{middle + 4}" text-anchor="end">{share.hits} of {share.total}</text>'
    )


def _x(share: float) -> float:
    """The place of a share on the axis."""
    return round(LABEL + share * (WIDTH - LABEL - 80), 1)
