"""One line about a look, for whoever watches an evaluation. Pure."""

from __future__ import annotations

from math import log

from eventlog.events import Look

_CELLS = 10
_PICO = 10**12
_NEXT = {
    "continue": "plays on",
    "reject": "enough evidence",
    "futile": "too little evidence to play on",
    "end": "not enough evidence",
}


def describe_look(look: Look, runs: int, most_runs: int, most_confirming: int) -> str:
    """The look, its evidence against the boundary as a bar of tenths, and the runs of the most that may be needed.

    These are runs of the test, and those that may confirm what looked worse where the test is passed.
    """
    cells = evidence_cells(look)
    bar, says = "█" * cells + "░" * (_CELLS - cells), describe_outcome(look)
    most = f"at most {most_runs:,} runs (confirming losses may take up to {most_confirming:,} more)"
    return f"look {look.number} of {look.of} ▕{bar}▏ {says}; {runs:,} of {most}"


def describe_outcome(look: Look) -> str:
    """The outcome of a look, in words."""
    return _NEXT[look.outcome]


def evidence_cells(look: Look) -> int:
    """Evidence in tenths of its boundary, rounded down: the ratio of the logarithms of p and of the alpha spent."""
    if look.outcome == "reject":
        return _CELLS
    if not 0 < look.boundary < _PICO or look.p_value >= _PICO:
        return 0
    return min(_CELLS - 1, int(_CELLS * log(look.p_value / _PICO) / log(look.boundary / _PICO)))
