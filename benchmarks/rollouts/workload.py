"""Workload of runs: every task of both sites, in the same order in every arm, with unique keys."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from agents.envs.clients.client import EnvClient
from agents.executors.executor import Executor
from agents.learning.memory import forget_everything
from agents.rewards import DEFAULT_PRICES
from agents.rollouts.dispatching.dispatch import Call, Dispatch
from agents.rollouts.play import Job, Means, Played, play
from agents.rollouts.record import rollout, stopwatch
from agents.rollouts.sweep import SeedSweep, plan_sweep
from benchmarks.shipped import templates
from eventlog.blobs import BlobStore
from eventlog.blobs.postgres import without_flush
from eventlog.events import SeedsRule, Template
from eventlog.store import EventStore
from projections.costs import PriceBook

NOTHING = forget_everything("base")[0]
BOOK = PriceBook(
    version=DEFAULT_PRICES.version,
    per_action=DEFAULT_PRICES.per_action,
    per_second=DEFAULT_PRICES.per_second,
    per_thousand_input_tokens=DEFAULT_PRICES.per_thousand_input_tokens,
    per_thousand_output_tokens=DEFAULT_PRICES.per_thousand_output_tokens,
)
_sweeps = itertools.count(1)


@dataclass(frozen=True)
class Bench:
    """The sites, and the log that records the runs."""

    clients: Mapping[str, EnvClient]
    store: EventStore
    blobs: BlobStore

    def arm(self, executor: Executor, *, runs: int, max_parallel: int, recorded: bool) -> Callable[[], int]:
        """An arm that plays `runs` runs in parallel, recorded or not, and returns their number."""

        def go() -> int:
            jobs = self._jobs(runs)
            work = self._recorded if recorded else self._played
            calls = [Call(job) for job in jobs]
            found = Dispatch(calls, lambda job, _: work(job, executor), max_parallel=max_parallel).results()
            missing = sum(each.result is None or each.result.events[-1].type == "RunMissing" for each in found)
            if missing:
                raise ValueError(f"{missing} of {runs} runs are missing; expected none, else the figures are invalid")
            return runs

        return go

    def _jobs(self, runs: int) -> Sequence[Job]:
        """The first `runs` runs of all tasks over ascending seeds; the same each time, under new names."""
        made = [self._jobs_of(site, runs) for site in sorted(self.clients)]
        return list(itertools.islice((job for group in zip(*made, strict=False) for job in group), runs))

    def _jobs_of(self, site: str, runs: int) -> list[Job]:
        found = self._tasks(site)
        sweep = SeedSweep(f"bench-{next(_sweeps)}", found, range(-(-runs // len(found))), 1)
        specs = plan_sweep(sweep, site, NOTHING, rng_seed=7).specs
        by_id = {template.template_id: template for template in found}
        ordered = sorted(specs, key=lambda spec: (spec.env_seed, spec.template))
        return [Job(spec, by_id[spec.template], site, NOTHING, (), None, None, learns=False) for spec in ordered]

    def _tasks(self, site: str) -> tuple[Template, ...]:
        return templates({task.task_id: task.instruction for task in self.clients[site].health().tasks})

    def _means(self, job: Job, executor: Executor) -> Means:
        return Means(self.clients[job.environment], BOOK, SeedsRule(), stopwatch, executor)

    def _played(self, job: Job, executor: Executor) -> Played:
        return play(job, self._means(job, executor))

    def _recorded(self, job: Job, executor: Executor) -> Played:
        return rollout(job, self.store, without_flush(self.blobs), self._means(job, executor))
