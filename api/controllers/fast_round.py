"""The instances of the fast loop's next round: more of the tasks that failed, or lack runs, in the last one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agents.executors.executor import Executor
from agents.rollouts.sweep import Generator, SeedSweep
from eventlog.events import Template
from eventlog.store import EventStore
from projections.engine.views import Views

from ..course import Course
from ..queries.benchmarks import benchmark_seeds
from ..queries.sweeps import last_round, sweeps_on
from ..sweeps.executors import recorded_as
from ..sweeps.missing import count_missing
from ..sweeps.plan import Draw, biased_generator, next_sweep_name
from ..sweeps.seeds import fresh_seeds
from .fast_next import FLOOR


@dataclass(frozen=True, slots=True)
class RoundSize:
    """Seeds of each task, siblings of each seed, and the temperatures at which a model samples (a plan has none)."""

    seeds: int
    siblings: int
    temperatures: tuple[int, ...] = ()


def round_generator(
    store: EventStore,
    views: Views,
    site: str,
    course: Course,
    templates: Sequence[Template],
    size: RoundSize,
    executor: Executor,
) -> Generator:
    """Generate more instances for tasks that failed, or lack runs, in the executor's last round; else equally many."""
    name, planned, held = next_sweep_name(store, views, site), sweeps_on(views, site), benchmark_seeds(views, site)
    last = last_round(store, views, site, templates, recorded_as(executor))
    if last is not None:
        instances = size.seeds * len(templates)
        seeds_left, missing = fresh_seeds(planned, course, instances, held), count_missing(views, last)
        draw = Draw(seeds_left, instances, size.siblings, course.rng_seed, size.temperatures, missing, FLOOR)
        towards_failures = biased_generator(views, site, name, templates, "template", draw, of=last.sweep)
        if towards_failures.allocation() and len(draw.seeds) == instances:
            return towards_failures
    return SeedSweep(name, templates, fresh_seeds(planned, course, size.seeds, held), size.siblings, size.temperatures)
