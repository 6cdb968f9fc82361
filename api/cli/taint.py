"""The learning that came from some runs, as commands show it before they withdraw or erase."""

from __future__ import annotations

from projections.taint import Tainted

from .output import say

_MOST_SHOWN = 20


def show_learned(found: Tainted, *, empty: str) -> None:
    """Print the runs and what was learned from them by kind, some names of each; `empty` where there are no runs."""
    if not found.runs:
        say(empty)
        return
    listed = [(words, names) for words, names in _kinds(found) if names]
    for words, names in listed:
        say(f"{words}: {len(names)}")
        for name in names[:_MOST_SHOWN]:
            say(f"  {name}")
        if len(names) > _MOST_SHOWN:
            say(f"  and {len(names) - _MOST_SHOWN} more; --json names them all")
    if len(listed) == 1:
        say("nothing was learned from them")


def _kinds(found: Tainted) -> tuple[tuple[str, tuple[str, ...]], ...]:
    return (
        ("runs", found.runs),
        ("rewrites learned from them", found.rewrites),
        ("other pieces of memory learned from them", found.pieces),
        ("datasets whose rows hold them", found.datasets),
        ("checkpoints learned from those", found.checkpoints),
        ("later checkpoints that go on from those (listed, not touched)", found.checkpoints_under),
        ("evaluations they were played in", found.evaluations),
        ("champions pointed on those verdicts, at position", tuple(map(str, found.champions))),
        ("other runs that carried what was learned (listed, not touched)", found.runs_under),
        ("rewrites learned from those other runs (listed, not touched)", found.rewrites_under),
        ("other pieces learned from those other runs (listed, not touched)", found.pieces_under),
    )
