"""Wardens of agents: what they tell, and what they leave behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from agents.executors.outside import warden, warden_process
from agents.executors.outside.task_facts import AgentLimits
from agents.executors.outside.warden_process import warden_lines

REPORT_MUCH = """
import os
with open(os.environ["STEPS"], "w") as steps:
    for number in range(9):
        steps.write(f'{{"name": "look", "argument": "{number}", "text": "{"x" * 30_000}"}}\\n')
print("looked at all")
"""
REPORT_AMONG_OTHER_LINES = """
import os
with open(os.environ["STEPS"], "w") as steps:
    for number in range(3):
        steps.write('\\n[1]\\n{"name": " "}\\nnot json\\n{"name": "look", "argument": "%d"}\\n' % number)
    steps.write('{"name": "look", "argument": "last"}')
"""
FLOOD = """
import os, time
with open(os.environ["STEPS"], "w") as steps:
    steps.write("\\n" * 1_000_000)
time.sleep(600)
"""
LEAVE_AND_REMOVE = """
import os, sys
from pathlib import Path
from agents.executors.outside.warden import remove_home

if os.getuid() == 0:  # root is denied nothing
    os.chown(".", 65534, 65534)
    os.setuid(65534)
deepest = Path("home/cache/module")
deepest.mkdir(parents=True)
(deepest / "code.go").write_text("package code")
others = Path("others/kept")
others.mkdir(parents=True)
(deepest / "link").symlink_to(others.absolute())
for folder, mode in ((deepest, 0o000), (deepest.parent, 0o500), (others, 0o500)):
    folder.chmod(mode)
remove_home(Path("home"))
Path("other home").symlink_to(others.parent)
remove_home(Path("other home"))
print(os.path.exists("home"), oct(others.stat().st_mode & 0o777))
"""


def test_a_home_is_removed_though_an_agent_took_the_right_to_write_there(tmp_path: Path) -> None:
    root = Path(warden.__file__).parents[3]
    code = f"import sys; sys.path.insert(0, {str(root)!r})\n{LEAVE_AND_REMOVE}"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "0o500"]


def told(folder: Path, program: str, seconds: float, most: int = 40) -> dict[str, Any]:
    """What a warden is told of a program of Python that plays in the folder."""
    home = folder / "home"
    home.mkdir()
    steps = str(home / "steps.jsonl")
    how = {"command": [sys.executable, "-c", program], "folder": str(folder), "home": str(home)}
    return {**how, "variables": {"STEPS": steps}, "steps_file": steps, "steps": most} | asdict(AgentLimits(seconds))


def arguments(lines: list[dict[str, Any]]) -> list[str]:
    """The arguments of the steps that a warden told."""
    return [json.loads(line["step"])["argument"] for line in lines if "step" in line]


@pytest.mark.parametrize(("most", "end"), [(4, "exited"), (3, "steps")])
def test_only_lines_that_are_steps_count_as_steps_and_the_last_needs_no_end(
    tmp_path: Path, most: int, end: str
) -> None:
    lines = list(warden_lines((), told(tmp_path, REPORT_AMONG_OTHER_LINES, 60, most), os.defpath, 60))
    assert arguments(lines) == ["0", "1", "2", "last"][:most]
    assert lines[-1]["end"] == end


def test_a_flood_of_lines_that_are_no_steps_is_ended(tmp_path: Path) -> None:
    *_, last = warden_lines((), told(tmp_path, FLOOD, 60), os.defpath, 60)
    assert last["end"] == "lines"


def test_whoever_takes_long_over_a_step_loses_no_later_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warden_process, "GRACE_S", 2.0)
    lines: list[dict[str, Any]] = []
    with closing(warden_lines((), told(tmp_path, REPORT_MUCH, 5.0), os.defpath, 5.0)) as told_lines:
        for line in told_lines:
            if not lines:
                time.sleep(8.0)
            lines.append(line)
    assert arguments(lines) == [str(number) for number in range(9)]
    assert lines[-1] == {"end": "exited", "code": 0, "output": "looked at all\n"}
