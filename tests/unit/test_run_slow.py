"""What the slow loop is told on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from api.cli.main import run_command
from api.cli.run_slow import STAGES, course_of
from api.course import Course
from api.training.errors import BadConfig
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


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--budget-runs", "9"),
        ("--budget-dollars", "1"),
        ("--budget-minutes", "9"),
        ("--verdicts", "1"),
        ("--cluster", "leads"),
    ],
)
def test_what_bounds_the_fast_loop_is_refused_for_the_slow_one(
    option: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["run", "--loop", "slow", option, value]) == 64
    said = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert f"{option}: only for the fast loop" in said


@pytest.mark.parametrize("value", ["inf", "nan"])
def test_dollars_that_are_no_number_are_refused(value: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["run", "--budget-dollars", value]) == 64
    assert "Invalid value for '--budget-dollars'" in capsys.readouterr().err
