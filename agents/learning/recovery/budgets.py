"""How much recovery may do for one run."""

from __future__ import annotations

from typing import Final

from eventlog.events.event import Count, FrozenModel


class Budgets(FrozenModel):
    """The most of everything.

    `per_step` and `per_run` count what is proposed, `looks` walks in the instance. Of a page so many `links` are
    followed, `depth` deep; a choice of more than `switch` options is no switch, and is left alone.
    """

    per_step: Count = 2
    per_run: Count = 5
    looks: Count = 60
    links: Count = 8
    depth: Count = 2
    switch: Count = 3


BUDGETS: Final = Budgets()
