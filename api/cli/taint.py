"""What was learned from some runs, as the commands that withdraw or erase show it before they ask."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from gate.figures import counted
from projections.taint import Tainted

from .output import say

_MOST_SHOWN = 20


def plain(found: Tainted) -> dict[str, Any]:
    """What was learned, whole, for programs."""
    return asdict(found)


def show_learned(found: Tainted, *, empty: str) -> None:
    """What was learned by kind, a few names of each; the sentence `empty` where there are no runs."""
    if not found.runs:
        say(empty)
        return
    listed = list(_kinds(found))
    amount = counted(len(found.runs), "run")
    say(f"Learned from {amount}:" if listed else f"Nothing was learned from {amount}.")
    for words, names in listed:
        say(f"  {words}: {len(names)}")
        for name in names[:_MOST_SHOWN]:
            say(f"    {name}")
        if len(names) > _MOST_SHOWN:
            say(f"    and {len(names) - _MOST_SHOWN} more; --json names them all")


def _kinds(found: Tainted) -> Iterator[tuple[str, tuple[str, ...]]]:
    kinds = (
        ("rewrites learned from them", found.rewrites),
        ("datasets whose rows hold them", found.datasets),
        ("checkpoints learned from those", found.checkpoints),
        ("evaluations they were played in", found.evaluations),
        ("champions pointed on those verdicts, at position", tuple(map(str, found.champions))),
        ("other runs that carried those rewrites (listed, not touched)", found.runs_under),
        ("rewrites learned from those other runs (listed, not touched)", found.rewrites_under),
    )
    return ((words, names) for words, names in kinds if names)
