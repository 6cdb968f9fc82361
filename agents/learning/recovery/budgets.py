"""Limits of recovery for one run."""

from __future__ import annotations

from typing import Final

from eventlog.events.event import Count, FrozenModel


class Budgets(FrozenModel):
    """Upper limits of recovery for one run.

    `per_step` and `per_run` limit proposals, `looks` limits inspections of the instance. At most `links` links of a
    page are followed, `depth` levels deep. A choice with more than `switch` options is not tried as a switch.
    If no change of these kinds works, cures of up to `way` steps are tried, for which `kept` inspections are left.
    """

    per_step: Count = 2
    per_run: Count = 5
    looks: Count = 60
    links: Count = 8
    depth: Count = 2
    switch: Count = 3
    way: Count = 4
    kept: Count = 20


BUDGETS: Final = Budgets()
