"""An environment that is admitted without being probed, for tests of what comes after."""

from __future__ import annotations

from agents.envs.admission import admit, record
from agents.envs.probing.probes import tasks_digest
from agents.envs.provider import known_sites
from eventlog.events import EnvironmentProbed, ProbeResult
from eventlog.store import EventStore, Position
from projections.engine.views import ReplayedViews
from projections.environments import ENVIRONMENTS


def report(site: str, outcome: str = "passed", url: str | None = None) -> EnvironmentProbed:
    """A report of one probe on a site of ours, with the tasks that it grades today."""
    tasks = known_sites()[site].tasks
    made = {"outcome": outcome, "detail": "made up by a test"}
    return EnvironmentProbed(
        environment=site,
        url=url,
        tasks=tuple(task.task_id for task in tasks),
        tasks_digest=tasks_digest(tasks),
        probes=tuple(ProbeResult.model_validate({"name": name, **made}) for name in ("null_agent", "two_seeds")),
        seeds=(0,),
        rng_seed=0,
        fingerprints=(),
    )


def admitted(store: EventStore, site: str) -> Position:
    """Record a made-up report on a site of ours and admit it; the position of the admission."""
    record(store, report(site), "test")
    state = ReplayedViews(store, store.head()).find(ENVIRONMENTS)[site]
    return admit(store, state, "test", "a test needs it")
