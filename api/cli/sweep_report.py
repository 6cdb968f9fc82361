"""Progress of sweeps, as printed by commands."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Final

from eventlog.events import SweepPlanned
from gate.figures import decimal, dollars
from projections.datasets.variance import GroupClass

from ..house import House
from ..sweeps.answers import SweepAnswer
from ..sweeps.executors import worker_of
from ..sweeps.progress import SweepProgress, sweep_progress
from .output import emit_json, none_of, print_facts, print_rows, say

_COLUMNS: Final = (
    *("sweep", "received", "graded", "ungraded", "halted", "missing", "playing", "waiting", "passed", "cost"),
    "artifact",
)


def row(found: SweepProgress) -> dict[str, object]:
    """A sweep as a row, for tables and JSON."""
    return {**dataclasses.asdict(found), "cost": dollars(found.cost), "cost_micro": found.cost}


def plain_progress(found: SweepAnswer) -> dict[str, object]:
    """A sweep with its groups and why runs are missing, for JSON."""
    return {
        **row(found.sweep),
        "groups": {key: dataclasses.asdict(each) for key, each in found.groups.items()},
        "missing_because": [dataclasses.asdict(each) for each in found.missing],
    }


def print_sweeps(found: Sequence[SweepProgress], after: str | None, *, as_json: bool) -> None:
    """Print a page of sweeps."""
    empty = none_of("sweeps", "run `flywheel rollout sweep`", after)
    print_rows([row(each) for each in found], _COLUMNS, as_json=as_json, empty=empty)


def show(found: SweepProgress, groups: dict[str, GroupClass]) -> None:
    """Print a sweep and its groups."""
    usable = sum(each.grpo_usable for each in groups.values())
    print_facts(
        [
            ("sweep", f"{found.sweep} on {found.environment} with {found.artifact}"),
            ("runs", found.sentence()),
            ("passed", f"{found.passed} of {found.graded} graded"),
            ("halted", f"{found.halted} of {found.graded} graded: the agent gave up or ran out of its budget"),
            ("cost", dollars(found.cost)),
            ("groups", f"{usable} of {len(groups)} differ enough to learn from (GRPO)"),
        ]
    )
    say("")
    rows = [
        {
            "group": name,
            "runs": each.n,
            "passed": each.n_pass,
            "shaped std": decimal(each.shaped_std_micro),
            "usable": "yes" if each.grpo_usable else "no",
            "why": each.reason,
        }
        for name, each in groups.items()
    ]
    print_rows(
        rows, ("group", "runs", "passed", "shaped std", "usable", "why"), as_json=False, empty="no group was played yet"
    )


def tell(house: House, planned: Sequence[SweepPlanned], *, as_json: bool) -> None:
    """Print the progress of a sweep that was only planned."""
    (found,) = sweep_progress(house.views(), planned)
    if as_json:
        emit_json(row(found))
        return
    say(f"{found.sweep}: {found.sentence()}.")
    say(f"`{worker_of(planned[0])}` plays the waiting runs.")
