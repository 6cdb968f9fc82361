"""What the slow loop is told on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from api.cli.run_slow import STAGES, course_of
from api.decide import Course
from api.errors import BadConfig
from eventlog.events import SftConfig


def test_where_nothing_is_said_each_stage_has_a_round() -> None:
    course = course_of(Course(), None, None, 8, None)
    assert (course.stages, course.max_rounds, course.sizes.siblings, course.tasks) == (STAGES, len(STAGES), 8, ())
    assert [stage.algorithm for stage in STAGES] == ["sft", "dpo", "grpo"]


def test_stages_come_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "stages.json"
    file.write_text('[{"algorithm": "sft", "steps": 3, "learning_rate": "1e-3"}]')
    course = course_of(Course(), file, 5, 4, ["a"])
    assert course.stages == (SftConfig(steps=3, learning_rate="0.001"),)
    assert (course.max_rounds, course.tasks) == (5, ("a",))


@pytest.mark.parametrize("text", ["", "{}", "[]", '[{"algorithm": "warmup", "steps": 1, "learning_rate": "1"}]'])
def test_a_file_that_says_no_stages_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "stages.json"
    file.write_text(text)
    with pytest.raises(BadConfig):
        course_of(Course(), file, None, 8, None)
