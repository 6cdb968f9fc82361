"""Variance seeking: add siblings to groups whose runs all ended alike, until they differ or the budget is spent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agents.envs.environment import Environment
from agents.executors.executor import Executor
from agents.rollouts.play import PLAN
from agents.rollouts.sweep import extend_group
from eventlog.events import Spec, SweepPlanned
from eventlog.store import EventStore
from projections.datasets.variance import GroupClass, classes
from projections.engine.views import Views
from projections.rewards import REWARDS
from projections.runs import RUNS

from ..course import Course
from ..house import House
from ..queries.sweeps import plans_of
from ..reporter import Reporter
from ..sweeps.plan import extend
from ..sweeps.play import play_sweep
from ..sweeps.recovery_costs import known_sum, recovery_costs


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of seeking: siblings per group, and micro-dollars for the whole sweep (None: no limit)."""

    max_siblings: int
    max_cost: int | None


@dataclass(frozen=True, slots=True)
class Sought:
    """Result of seeking: siblings added, each group's class, and the sweep's cost so far in micro-dollars."""

    added: int
    groups: Mapping[str, GroupClass]
    cost: int
    stopped: str


def cost_of_sweep(store: EventStore, views: Views, sweep: str) -> int:
    """Cost of a sweep's graded runs and recovery in micro-dollars. An unknown cost counts as 0."""
    planned = next(iter(store.read(stream=f"sweep/{sweep}")), None)
    runs = views.find(RUNS, f"{sweep}__")
    asked = recovery_costs(views, runs, 0 if planned is None else planned.position)
    rewards = views.find(REWARDS, f"{sweep}__").values()
    return sum(reward.cost or 0 for reward in rewards) + known_sum(asked)


def seek(
    house: House,
    client: Environment,
    sweep: SweepPlanned,
    course: Course,
    limits: Limits,
    reporter: Reporter,
    executor: Executor = PLAN,
    *,
    actor: str,
) -> Sought:
    """Add one sibling at a time to each group that GRPO cannot use, at the temperatures of its siblings."""
    added = 0
    while True:
        views = house.views()
        found, cost = classes(views, sweep.sweep), cost_of_sweep(house.store, views, sweep.sweep)
        specs = _one_more(house, sweep, found, limits.max_siblings)
        if limits.max_cost is not None and cost >= limits.max_cost:
            return Sought(added, found, cost, "the cost limit was reached")
        if not specs:
            is_done = all(each.grpo_usable for each in found.values())
            why = "the runs of each group differ" if is_done else "each group has the maximum number of siblings"
            return Sought(added, found, cost, why)
        play_sweep(house, client, extend(house, views, sweep, specs, actor), course, reporter, executor)
        added += len(specs)


def _one_more(house: House, sweep: SweepPlanned, found: Mapping[str, GroupClass], most: int) -> tuple[Spec, ...]:
    """The next sibling of each unusable group that has fewer than `most`, in order of group."""
    events = plans_of(house.store, house.views(), sweep.sweep)
    by_group: dict[str, list[Spec]] = {}
    for event in events:
        for spec in event.specs:
            by_group.setdefault(spec.group_id, []).append(spec)
    wanting = sorted(
        name for name, known in by_group.items() if name in found and not found[name].grpo_usable and len(known) < most
    )
    extended = (extend_group(sweep.sweep, sweep.templates, by_group[name], len(by_group[name]) + 1) for name in wanting)
    return tuple(spec for group in extended for spec in group)
