"""`flywheel run --loop both` killed for real in each of its parts: none of them is gone round again.

The base model is a random one that passes nothing, so a round of the slow loop is a sweep and no more.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.admitted import admitted
from tests.coin import SITE, TASK
from tests.conftest import Database
from tests.killing import Kill, project_on
from tests.tiny import make_base

pytestmark = [pytest.mark.timeout(600), pytest.mark.filterwarnings("ignore::FutureWarning")]

KILLS = (Kill("RunFinished", 1, f"run/{SITE}-1__"), Kill("CourseClosed"), Kill("SweepPlanned", 2))
"""In the fast part, as soon as it has ended, and in the slow part."""


@pytest.mark.costly("four real commands with what they train, each killed but the last")
def test_both_loops_killed_in_each_part_go_on_with_the_part_that_had_not_ended(
    clone: Callable[[str], Database], tmp_path: Path
) -> None:
    base = make_base(tmp_path / "bases", longest=4096)
    stages = tmp_path / "stages.json"
    stages.write_text(json.dumps([{"algorithm": "sft", "steps": 1, "learning_rate": "0.1"}]))
    words = ["run", "--loop", "both", "--site", SITE, "--cluster", "control", "--task", TASK, "--base", str(base.path)]
    words += ["--stages", str(stages), "--rounds", "1", "--seeds", "2", "--siblings", "4", "--max-parallel", "1"]
    with project_on(clone("empty"), tmp_path / "killed") as killed:
        admitted(killed.house.store, SITE)
        child = killed.begun(words)
        for kill in KILLS:
            killed.wait(kill, child)
            killed.strike(kill, child)
            child = killed.begun(words)
        killed.completed(child)

        assert "has ended: " in killed.said()
        log = list(killed.house.store.read())
        courses: list[Any] = [each.event for each in log if each.stream == f"course/{SITE}"]
        assert [(each.type, each.loop) for each in courses] == [
            ("CourseOpened", "slow"),
            ("CourseOpened", "fast"),
            ("CourseClosed", "fast"),
            ("CourseClosed", "slow"),
        ]
        assert courses[-1].why == "no round is left of 1"
        planned = [each.actor for each in log if each.event.type == "SweepPlanned"]
        assert planned == ["controller", "slow-controller"]
