"""Sibling runs of all tasks of our sites, 16 side by side, more than once: each time the same runs.

The long form (200 runs, three times) is one of `make endure`.
"""

from __future__ import annotations

import pytest

from agents.envs.clients.client import EnvClient
from agents.envs.provider import known_sites
from agents.learning.memory import forget_everything
from agents.rollouts.dispatching.dispatch import Call, Dispatch
from agents.rollouts.play import Job, Means, Played
from agents.rollouts.record import rollout, stopwatch
from agents.rollouts.sweep import SeedSweep, plan_sweep
from benchmarks.shipped import templates
from eventlog.blobs import MemoryBlobs
from eventlog.events import SeedsRule
from tests.integration.test_rollouts import outcome
from tests.unit.test_agent_samples import BOOK, a_store

ARTIFACT = forget_everything("base")[0]


def jobs_of(site: str, seeds: range, siblings: int) -> list[Job]:
    found = templates({task.task_id: task.instruction for task in known_sites()[site].tasks})
    sweep = plan_sweep(SeedSweep(site, found, seeds, siblings), site, ARTIFACT, rng_seed=7)
    by_id = {template.template_id: template for template in found}
    return [
        Job(
            spec=spec,
            template=by_id[spec.template],
            environment=site,
            artifact=ARTIFACT,
            pieces=(),
            candidate=None,
            arm=None,
            learns=False,
        )
        for spec in sweep.specs
    ]


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("seeds", "siblings", "rounds"), [(2, 3, 2), pytest.param(4, 5, 3, marks=pytest.mark.endure)])
def test_siblings_sixteen_at_a_time_end_alike_each_time(
    marketplace: EnvClient, helpdesk: EnvClient, seeds: int, siblings: int, rounds: int
) -> None:
    clients = {"marketplace": marketplace, "helpdesk": helpdesk}
    assert clients.keys() == known_sites().keys()
    todo = [job for site in clients for job in jobs_of(site, range(seeds), siblings)]
    assert len(todo) == 10 * seeds * siblings

    def round_of() -> dict[str, object]:
        store, blobs = a_store(), MemoryBlobs()

        def work(job: Job) -> Played:
            return rollout(job, store, blobs, Means(clients[job.environment], BOOK, SeedsRule(), stopwatch))

        ended = Dispatch([Call(job) for job in todo], lambda job, _: work(job), max_parallel=16).outcomes()
        return {each.call.work.run: outcome(each.result) for each in ended if each.result is not None}

    first = round_of()
    assert len(first) == len(todo)
    for _ in range(rounds - 1):
        assert round_of() == first
