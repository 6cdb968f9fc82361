"""What docs/environments.md says of each task is what its plain plan does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agents.envs.provider import known_sites
from benchmarks.base_rates import passed, rated

DOCS = Path(__file__).parents[2] / "docs" / "environments.md"
ROW = re.compile(r"^\| `([a-z_.]+)` \| (\w+) \| \w+ \| ([\d.]+) (\([^)]*\)) \| ([\d.]+) (\([^)]*\)) \|", re.MULTILINE)
ROWS = {found[0]: found for found in ROW.findall(DOCS.read_text())}
SEEDS = range(40)
TOLERANCE = 0.15


def test_every_task_has_a_row_with_its_cluster_and_intervals_of_200_seeds() -> None:
    tasks = [task for kind in known_sites().values() for task in kind.tasks]
    assert list(ROWS) == [task.task_id for task in tasks]
    for task in tasks:
        _, cluster, *cells = ROWS[task.task_id]
        assert cluster == task.cluster
        for rate, interval in zip(cells[::2], cells[1::2], strict=True):
            assert rated(round(float(rate) * 200), 200) == f"{rate} {interval}"


@pytest.mark.parametrize("site", sorted(known_sites()))
def test_the_first_seeds_pass_as_often_as_all_of_them_are_said_to(site: str) -> None:
    for task, count in passed(site, SEEDS).items():
        said = float(ROWS[task][2])
        assert abs(count / len(SEEDS) - said) <= TOLERANCE, task
        assert said > 0 or count == 0


def test_noisy_and_control_tasks_are_neither_certain_nor_hopeless() -> None:
    rates = {task: float(row[2]) for task, row in ROWS.items() if row[1] in {"noise", "control"}}
    assert len(rates) == 4
    assert all(0.3 <= rate <= 0.7 for rate in rates.values())
