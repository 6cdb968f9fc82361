"""Benchmarks of a site: the one in force, what it lacks, and the seeds it holds."""

from __future__ import annotations

from eventlog.events import BenchmarkFrozen, Rules
from gate.benchmark import sealed_instances
from gate.renewal import newest_successor
from projections.benchmarks import BENCHMARKS, benchmark_instances
from projections.engine.views import Views

from .facts import require


def is_benchmark_of(views: Views, benchmark: str, site: str) -> bool:
    """Whether a benchmark is of a site."""
    state = views.get(BENCHMARKS, benchmark)
    return state is not None and state.environment == site


def first_benchmark_name(site: str) -> str:
    """The first benchmark that the controller judges a site's challengers on."""
    return f"{site}-1"


def present_benchmark(views: Views, site: str) -> BenchmarkFrozen:
    """The benchmark that challengers are judged on now: the first one of the site, or its newest successor.

    Raises FactMissing.
    """
    benchmarks = views.find(BENCHMARKS)
    return require(benchmarks.get(newest_successor(benchmarks, first_benchmark_name(site)))).frozen_event()


def shortage(benchmark: BenchmarkFrozen, rules: Rules) -> str:
    """Why a benchmark can only void under these rules."""
    return f"{sealed_instances(benchmark)} sealed instances, and the rules ask for {rules.min_pairs}"


def benchmark_seeds(views: Views, site: str) -> frozenset[int]:
    """The seeds at which a benchmark of a site holds any task: a sweep has the same seeds for all of its tasks."""
    instances = benchmark_instances(views.find(BENCHMARKS).values())
    return frozenset(seed for environment, _task, seed in instances if environment == site)
