"""A loop that is offered the skills and tools of an earlier one."""

from __future__ import annotations

from agents.executors.delegation.journal import LoopJournal
from agents.executors.delegation.loop import DelegationLoop, LoopMeans
from agents.executors.delegation.opening import Opening, open_loop
from eventlog.events import LoopConfig, OfferedSkill, OfferedTool

from .world import World


def run_with(
    earlier: LoopJournal,
    world: World,
    means: LoopMeans,
    config: LoopConfig,
    skills: tuple[OfferedSkill, ...],
    tools: tuple[OfferedTool, ...],
) -> LoopJournal:
    """The journal of a loop on a world, in the log of an earlier one, after its end."""
    journal = LoopJournal(earlier.store, earlier.blobs, f"later-{world.seed}", earlier.stopwatch)
    opening = Opening(
        world.task,
        means.manager.name,
        means.worker.name,
        config,
        world.seed,
        means.sandbox.kind,
        graded=True,
        skills=skills,
        tools=tools,
    )
    open_loop(journal, opening)
    DelegationLoop(journal, means).run()
    return journal
