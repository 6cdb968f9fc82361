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
"""What failures are counted by: the cluster of their task, or the task itself."""


@dataclass(frozen=True, slots=True)
class FailureBiased:
    """The seeds' FailureBiasedGenerator: `total_instances` go to clusters by their share of the failures.

    Clusters in order of name, templates of one in turn, seeds drawn by `rng_seed` without repetition: no instance comes
    twice. Without failures, or without a budget, there are no specs. `by` and `of` say what was counted, and where.
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

    @property
    def templates(self) -> tuple[Template, ...]:
        """See Generator."""
        return tuple(
            template for name in sorted(self.templates_by_cluster) for template in self.templates_by_cluster[name]
        )

    def allocation(self) -> dict[str, int]:
        """Instances by cluster, for those that have a template."""
        return allocate(self.total_instances, self._counts())

    def _counts(self) -> dict[str, int]:
        return {
            name: found for name, found in self.cluster_failure_counts.items() if self.templates_by_cluster.get(name)
        }

    def bias(self, upto: int) -> Bias:
        """The allocation as it rides on the sweep, with the position that the failures were read at."""
        instances = self.allocation()
        shares = (
            Share(cluster=name, failures=failures, instances=instances.get(name, 0))
            for name, failures in sorted(self._counts().items())
            if failures > 0
        )
        return Bias(upto=upto, shares=tuple(shares), by=self.by, of=self.of)

    def specs(self) -> tuple[Spec, ...]:
        """See Generator. Raises BadSweep also where a cluster has fewer instances than its share."""
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
            raise BadSweep(sweep=self.sweep, actual=actual, expected="as many pairs of them; give more seeds")
        orders = {
            template.template_id: iter(shuffle_seeds(self.seeds, self.rng_seed, template)) for template in templates
        }
        return [
            (template, next(orders[template.template_id]))
            for template in (templates[number % len(templates)] for number in range(instances))
        ]


def shuffle_seeds(seeds: Sequence[int], rng_seed: int, template: Template) -> list[int]:
    """The seeds in an order that depends on the seed of the draw and the template alone, not on the order given."""
    return sorted(seeds, key=lambda seed: (digest([rng_seed, template.template_id, seed]), seed))


def allocate(budget: int, counts: Mapping[str, int]) -> dict[str, int]:
    """Share a budget by largest remainder, in proportion to counts (below zero is zero).

    Of equal remainders the last by name goes first. Empty where there is nothing to share or nobody to get it.
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
    """How many failed runs of an environment count for each cluster or task; benchmark runs count for none.

    Neither does a contaminated run, which did not have the task that it was given, nor one from outside.
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
    """The templates of each cluster, or each template by its own name; in order of id."""
    found: dict[str, list[Template]] = {}
    for template in sorted(templates, key=lambda template: template.template_id):
        found.setdefault(template.cluster if sorting == "cluster" else template.template_id, []).append(template)
    return {name: tuple(members) for name, members in found.items()}
