"""Tasks whose right answer is the same at every seed: by the site's probes, else by recorded passed runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from pydantic import ValidationError

from agents.envs.probing.answers import aim_of, is_one_answer
from agents.envs.probing.target import CONTROL
from agents.rollouts.regrade import read_changes
from eventlog.errors import BlobErased
from eventlog.events import BenchmarkTemplate, RunFinished
from projections.contamination import contaminated_runs
from projections.engine.views import Views
from projections.environments import ENVIRONMENTS
from projections.rewards import REWARDS
from projections.runs import OUTSIDE, RUNS
from projections.taint import left_out

from ..house import House

MOST_SEEDS: Final = 12
"""Passed seeds of a task that are compared; tasks that vary differ at the first two almost always."""


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
    passed = _passed_runs(views, site)
    return frozenset(name for name in wanted if is_one_answer(dict(_aims(house, passed.get(name, {})))))


def _passed_runs(views: Views, site: str) -> dict[str, dict[int, str]]:
    """One passed run of each seed of each template on a site, outside evaluations."""
    runs, rewards = views.find(RUNS), views.find(REWARDS)
    unsound = contaminated_runs(views) | left_out(views).keys()
    found: dict[str, dict[int, str]] = defaultdict(dict)
    for run, state in runs.items():
        is_ours = state.environment == site and state.evaluation is None and not run.startswith(OUTSIDE)
        if is_ours and state.mutations and run in rewards and rewards[run].passed and run not in unsound:
            found[state.template].setdefault(state.env_seed, run)
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
