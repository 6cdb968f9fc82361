"""Tasks whose right answer is the same at every seed: by the site's probes, else by recorded passed runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from pydantic import ValidationError

from agents.envs.probing.answers import aim_of, is_one_answer
from agents.envs.probing.target import CONTROL
from agents.rollouts.regrade import read_changes
from eventlog.errors import BlobErased
from eventlog.events import BenchmarkTemplate, RunFinished
from projections.engine.views import Views
from projections.environments import ENVIRONMENTS
from projections.groups import find_groups
from projections.runs import RUNS
from projections.sweeps import SWEEP_PLANS
from projections.taint import left_out

from ..house import House
from ..queries.predictions import PREFIX

MOST_SEEDS: Final = 12
"""Passed seeds of a task that are compared; tasks that vary differ at the first two almost always."""

MOST_SWEEPS: Final = 40
"""Newest sweeps of a site whose runs are read. Of the others a row each is read, which says what they planned."""


def mark_repeated(house: House, site: str, templates: Sequence[BenchmarkTemplate]) -> tuple[BenchmarkTemplate, ...]:
    """The templates, with those marked whose right answer is the same at every seed.

    So the site's probes found, or where they had no known solution, the passed runs of the log made the same changes.
    """
    views = house.views()
    state = views.get(ENVIRONMENTS, site)
    alike = frozenset(() if state is None else state.alike)
    is_solved = state is not None and any(
        each.name == "oracle_agent" and each.outcome == "passed" for each in state.probes
    )
    shown = frozenset[str]() if is_solved else _shown_by_runs(house, views, site, templates)
    return tuple(
        each.model_copy(update={"one_answer": each.oracle_task_id in alike or each.template_id in shown})
        for each in templates
    )


def _shown_by_runs(house: House, views: Views, site: str, templates: Sequence[BenchmarkTemplate]) -> frozenset[str]:
    """Ids of the templates whose passed runs at several seeds made the same changes. Chance decides control tasks."""
    wanted = {each.template_id for each in templates if each.cluster != CONTROL}
    passed = _passed_runs(views, site, sorted(wanted))
    return frozenset(name for name in wanted if is_one_answer(dict(_aims(house, passed[name]))))


def _passed_runs(views: Views, site: str, wanted: Iterable[str]) -> dict[str, dict[int, str]]:
    """One passed run that changed something of each seed of each template, of the newest sweeps on a site."""
    left = left_out(views)
    found_plans = (each for each in views.find(SWEEP_PLANS).values() if each.environment == site)
    plans = [each for each in found_plans if not each.sweep.startswith(PREFIX)]  # a prediction is one run of others
    newest = [each.sweep for each in sorted(plans, key=lambda each: each.since, reverse=True)][:MOST_SWEEPS]
    found: dict[str, dict[int, str]] = {name: {} for name in wanted}
    for sweep in dict.fromkeys(newest):
        for name in (each for each, seeds in found.items() if len(seeds) < MOST_SEEDS):
            passed = {
                sibling.run: group.env_seed
                for group in find_groups(views, f"{sweep}__{name}__seed").values()
                for sibling in group.siblings
                if sibling.passed and sibling.run not in group.contaminated_siblings | left.keys()
            }
            for run, state in views.pick(RUNS, passed).items():
                if state.mutations:
                    found[name].setdefault(passed[run], run)
    return found


def _aims(house: House, runs: dict[int, str]) -> Iterator[tuple[int, str]]:
    """Changes by the runs of seeds, until two of them differ."""
    first: str | None = None
    for seed, run in sorted(runs.items())[:MOST_SEEDS]:
        aim = _recorded_aim(house, run)
        if aim is None:
            continue
        yield seed, aim
        first = first or aim
        if aim != first:
            return


def _recorded_aim(house: House, run: str) -> str | None:
    """Aims of the recorded changes of a run; None if its end state was erased or is no list of changes."""
    for recorded in house.store.read(stream=f"run/{run}", types=("RunFinished",)):
        if isinstance(recorded.event, RunFinished):
            try:
                return aim_of(read_changes(house.blobs.get(recorded.event.end_state).body))
            except (BlobErased, ValidationError):
                return None
    return None
