"""Failure-biased sweeps: more instances where the agent fails more. Pure; failure counts come in as plain data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Literal

from eventlog.chain import digest
from eventlog.events import Bias, Share, Spec, Template
from projections.failures import FailureState
from projections.runs import OUTSIDE

from .errors import BadSweep
from .sweep import check_distinct, check_siblings, siblings_of

Sorting = Literal["cluster", "template"]
"""Key that failures are counted by: the cluster of their task, or the task itself."""


@dataclass(frozen=True, slots=True)
class FailureBiased:
    """The seeds' FailureBiasedGenerator: `total_instances` go to clusters by their share of the failures.

    Clusters are sorted by name, the templates of a cluster take turns, and seeds are drawn by `rng_seed` without
    replacement, so no instance occurs twice. Without failures or budget there are no specs. `by` is the key that
    failures were counted by, `of` the only sweep whose failures were counted (None: all). Each cluster gets `floor`
    instances first, as far as the budget allows, also one without failures.
    """

    sweep: str
    templates_by_cluster: Mapping[str, Sequence[Template]]
    cluster_failure_counts: Mapping[str, int]
    seeds: Sequence[int]
    total_instances: int
    siblings_per_instance: int = 1
    rng_seed: int = 0
    temperatures: Sequence[int] = ()
    by: Sorting = "cluster"
    of: str | None = None
    floor: int = 0

    @property
    def templates(self) -> tuple[Template, ...]:
        """See Generator."""
        return tuple(
            template for name in sorted(self.templates_by_cluster) for template in self.templates_by_cluster[name]
        )

    def allocation(self) -> dict[str, int]:
        """Number of instances per cluster, for clusters with a template. Empty without failures."""
        names = sorted(name for name, found in self.templates_by_cluster.items() if found)
        floor = min(self.floor, self.total_instances // max(1, len(names)))
        shares = allocate(self.total_instances - floor * len(names), self._counts())
        return {name: floor + shares.get(name, 0) for name in names if floor or name in shares} if shares else {}

    def _counts(self) -> dict[str, int]:
        return {
            name: found for name, found in self.cluster_failure_counts.items() if self.templates_by_cluster.get(name)
        }

    def bias(self, upto: int) -> Bias:
        """Allocation as recorded in the sweep's event, with the position that the failures were read at."""
        instances = self.allocation()
        shares = (
            Share(cluster=name, failures=failures, instances=instances.get(name, 0))
            for name, failures in sorted({**dict.fromkeys(instances, 0), **self._counts()}.items())
            if failures > 0 or (self.floor and name in instances)
        )
        return Bias(upto=upto, shares=tuple(shares), by=self.by, of=self.of)

    def specs(self) -> tuple[Spec, ...]:
        """See Generator. Raises BadSweep also if a cluster has fewer instances than its share."""
        check_distinct(self.sweep, self.templates, self.seeds)
        check_siblings(self.sweep, self.siblings_per_instance, self.temperatures)
        return tuple(
            spec
            for name, instances in sorted(self.allocation().items())
            for template, seed in self._draw(name, instances)
            for spec in siblings_of(self.sweep, template, seed, range(self.siblings_per_instance), self.temperatures)
        )

    def _draw(self, cluster: str, instances: int) -> list[tuple[Template, int]]:
        templates = self.templates_by_cluster[cluster]
        if instances > len(templates) * len(self.seeds):
            actual = f"{len(templates)} templates and {len(self.seeds)} seeds for {instances} instances of {cluster}"
            raise BadSweep(sweep=self.sweep, actual=actual, expected="at least as many pairs of them; give more seeds")
        orders = {
            template.template_id: iter(shuffle_seeds(self.seeds, self.rng_seed, template)) for template in templates
        }
        return [
            (template, next(orders[template.template_id]))
            for template in (templates[number % len(templates)] for number in range(instances))
        ]


def shuffle_seeds(seeds: Sequence[int], rng_seed: int, template: Template) -> list[int]:
    """Seeds in an order that depends only on `rng_seed` and the template, not on the input order."""
    return sorted(seeds, key=lambda seed: (digest([rng_seed, template.template_id, seed]), seed))


def allocate(budget: int, counts: Mapping[str, int]) -> dict[str, int]:
    """Share a budget in proportion to counts by the largest-remainder method; negative counts are zero.

    Equal remainders are served by name, last first. Empty if the budget or the sum of the counts is zero.
    """
    weights = {name: max(0, found) for name, found in counts.items()}
    total = sum(weights.values())
    if total == 0 or budget <= 0:
        return {}
    shares = {name: budget * weight // total for name, weight in weights.items()}
    left = sorted(weights, key=lambda name: (budget * weights[name] % total, name), reverse=True)
    for name in left[: budget - sum(shares.values())]:
        shares[name] += 1
    return {name: share for name, share in shares.items() if share}


def failures_by(
    failures: Iterable[FailureState], sorting: Sorting, environment: str, contaminated: Set[str] = frozenset()
) -> dict[str, int]:
    """Number of failed runs of an environment per cluster or task.

    Runs of benchmarks, contaminated runs (which did not have their given task) and runs from outside do not count.
    """
    found = Counter(
        state.cluster if sorting == "cluster" else state.template
        for state in failures
        if state.is_failure
        and state.environment == environment
        and not state.is_benchmark
        and not state.run.startswith(OUTSIDE)
        and state.run not in contaminated
    )
    return dict(found)


def sorted_by(templates: Iterable[Template], sorting: Sorting) -> dict[str, tuple[Template, ...]]:
    """Templates keyed by cluster, or by their own id; in order of id."""
    found: dict[str, list[Template]] = {}
    for template in sorted(templates, key=lambda template: template.template_id):
        found.setdefault(template.cluster if sorting == "cluster" else template.template_id, []).append(template)
    return {name: tuple(members) for name, members in found.items()}
