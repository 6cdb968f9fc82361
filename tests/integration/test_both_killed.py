"""`flywheel run --loop both` killed for real in turns of both loops and between them: none is gone round again.

The base model is a random one that passes nothing, so a round of the slow loop is a sweep and no more.
"""

from __future__ import annotations

import json
from collections import Counter
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

KILLS = (Kill("RunFinished", 1, f"run/{SITE}-1__"), Kill("LoopChosen", 2), Kill("SweepPlanned", 2))
"""In the fast loop's first turn, as soon as the slow loop is chosen, and in its turn."""


@pytest.mark.costly("four real commands with what they train, each killed but the last")
def test_both_loops_killed_in_their_turns_go_on_with_the_turn_that_had_not_ended(
    clone: Callable[[str], Database], tmp_path: Path
) -> None:
    base = make_base(tmp_path / "bases", longest=4096)
    stages = tmp_path / "stages.json"
    stages.write_text(json.dumps([{"algorithm": "sft", "steps": 1, "learning_rate": "0.1"}]))
    words = ["run", "--loop", "both", "--site", SITE, "--cluster", "control", "--task", TASK, "--base", str(base.path)]
    words += ["--stages", str(stages), "--rounds", "2", "--seeds", "2", "--siblings", "4", "--max-parallel", "1"]
    with project_on(clone("empty"), tmp_path / "killed") as killed:
        admitted(killed.house.store, SITE)
        child = killed.begun(words)
        for kill in KILLS:
            killed.wait(kill, child)
            killed.strike(kill, child)
            child = killed.begun(words)
        killed.completed(child)

        assert "the slow loop plays: it has not had a turn yet" in killed.said()
        log = list(killed.house.store.read())
        courses: list[Any] = [each.event for each in log if each.stream == f"course/{SITE}"]
        loops = [(each.type, each.loop) for each in courses]
        assert loops[:4] == [
            ("CourseOpened", "slow"),
            ("CourseOpened", "fast"),
            ("LoopChosen", "fast"),
            ("LoopChosen", "slow"),
        ]
        assert sorted(loop for kind, loop in loops if kind == "CourseClosed") == ["fast", "slow"]
        turns = [each.fast.turns + each.slow.turns for each in courses if each.type == "LoopChosen"]
        assert turns == list(range(len(turns)))
        planned = [each.actor for each in log if each.event.type == "SweepPlanned"]
        assert planned[:2] == ["controller", "slow-controller"]
        assert Counter(planned) == {"controller": 2, "slow-controller": 2}
