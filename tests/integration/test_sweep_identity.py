"""200 sibling runs of all tasks of our sites, 16 side by side, three times: each time the same runs."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from agents.envs.clients.client import EnvClient
from agents.envs.provider import known_sites, local_site
from agents.learning.memory import forget_everything
from agents.rollouts.dispatching.dispatch import Call, Dispatch
from agents.rollouts.play import Job, Means, Played
from agents.rollouts.record import rollout, stopwatch
from agents.rollouts.sweep import SeedSweep, planned
from agents.rollouts.tasks import templates
from eventlog.blobs import MemoryBlobs
from eventlog.events import SeedsRule
from tests.integration.test_rollouts import outcome
from tests.unit.test_agent_samples import BOOK, a_store

SEEDS, SIBLINGS = range(4), 5
ARTIFACT = forget_everything("base")[0]


def jobs_of(site: str) -> list[Job]:
    found = templates({task.task_id: task.instruction for task in known_sites()[site].tasks})
    sweep = planned(SeedSweep(site, found, SEEDS, SIBLINGS), site, ARTIFACT, rng_seed=7)
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
def test_two_hundred_siblings_sixteen_at_a_time_three_times_end_alike() -> None:
    todo = [job for site in sorted(known_sites()) for job in jobs_of(site)]
    assert len(todo) == 200
    with ExitStack() as stack:
        clients: dict[str, EnvClient] = {}
        for name in known_sites():
            site = stack.enter_context(local_site(name))
            clients[name] = stack.enter_context(EnvClient(site.admin_url, site.admin_token))

        def round_of() -> dict[str, object]:
            store, blobs = a_store(), MemoryBlobs()

            def work(job: Job) -> Played:
                return rollout(job, store, blobs, Means(clients[job.environment], BOOK, SeedsRule(), stopwatch))

            ended = Dispatch([Call(job) for job in todo], lambda job, _: work(job), max_parallel=16).outcomes()
            return {each.call.work.run: outcome(each.result) for each in ended if each.result is not None}

        first = round_of()
        assert len(first) == 200
        assert round_of() == first
        assert round_of() == first
