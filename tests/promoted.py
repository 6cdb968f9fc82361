"""A log in which trials promoted a change of a plan's step, without a run played."""

from __future__ import annotations

from agents.plans import anchor_of, rewrite_id
from api.house import House
from eventlog.events import Change, RewriteProposed, RewriteWon, SeedsRule, Step
from eventlog.store import Append
from projections.memories import candidacies


def promote_rewrite(house: House, step: Step, change: Change) -> str:
    """Append a rewrite of the step and the three trials that promote it; returns its id."""
    anchor, name = anchor_of(step), rewrite_id(anchor_of(step), change)
    won = [RewriteWon(rewrite=name, run=f"r{n}", control_runs=(), control_successes=0, env_seed=n) for n in range(3)]
    proposed = RewriteProposed(
        rewrite=name,
        anchor=anchor,
        change=change,
        rule=SeedsRule(),
        run="r",
        source="page_links",
        confidence=500_000,
    )
    house.store.append([Append(f"rewrite/{name}", (proposed, *won), "test")])
    assert candidacies(house.views())[name].status == "promoted"
    return name
