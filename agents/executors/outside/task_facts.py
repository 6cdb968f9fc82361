"""The task of a run as its agent is told it: as a file, in its environment, and to the warden that starts it."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from ...envs.contract import MICRO
from ...learning.advice import notes_paragraphs
from ..executor import Assignment
from .agent_spec import AgentSpec
from .task import TaskModel
from .warden import remove_home

LONGEST_VARIABLE: Final = 65_536
"""Most bytes of a fact in the environment, where a system allows 128 KiB; the task file has it whole."""


@dataclass(frozen=True, slots=True)
class AgentLimits:
    """Limits of one run of an agent: its time in seconds, and what it may print, start, hold and write."""

    seconds: float = 120.0
    output_bytes: int = 2**20
    processes: int = 64
    memory_bytes: int = 4 * 2**30
    file_bytes: int = 256 * 2**20


@dataclass(frozen=True, slots=True)
class Player:
    """The agent of a run, its limits, the variables of its environment, and its home."""

    agent: AgentSpec
    limits: AgentLimits
    home: Path
    variables: Mapping[str, str] = field(repr=False)


@contextmanager
def agent_home() -> Iterator[Path]:
    """A new folder that is the agent's home; it is removed at the end, whatever lies in it."""
    home = Path(tempfile.mkdtemp(prefix="run-", dir=_homes()))
    try:
        yield home
    finally:
        remove_home(home)


def _homes() -> Path:
    """The folder of this user that has the homes of all runs. Raises PermissionError if it is another user's."""
    found = Path(tempfile.gettempdir()) / f"flywheel-agents-{os.getuid()}"
    found.mkdir(mode=0o700, exist_ok=True)
    if found.lstat().st_uid != os.getuid():
        raise PermissionError(f"{found} belongs to another user; set TMPDIR to a folder of yours")
    return found


def task_facts(player: Player, assignment: Assignment, url: str | None, model: TaskModel | None) -> dict[str, Any]:
    """The task as the file and the environment tell it. The instance's seed and id are no part of it."""
    by_proxy = player.agent.by_proxy
    return {
        "instruction": assignment.instruction,
        "url": url,
        "seed": assignment.seed,
        "temperature": assignment.temperature_micro / MICRO,
        "deadline": time.time() + player.limits.seconds,
        "max_steps": assignment.max_steps,
        "advice": [] if by_proxy else list(assignment.advice),
        "guidance": "" if by_proxy else assignment.guidance,
        "notes": "" if by_proxy else notes_paragraphs(assignment.guidance, assignment.advice),
        "actions": [],
        "seen": "",
        "act_url": "",
        "page_headers": dict(assignment.page_headers),
        "model": model,
        "steps_file": str(player.home / "steps.jsonl"),
    }


def warden_facts(player: Player, task: Mapping[str, Any], assignment: Assignment) -> dict[str, Any]:
    """What the agent's warden is told: how to start it, in what environment, and within what limits."""
    return {
        "command": list(player.agent.words),
        "folder": str(player.agent.folder),
        "home": str(player.home),
        "variables": _environment(player, task),
        "steps_file": task["steps_file"],
        "steps": assignment.max_steps,
        **asdict(player.limits),
    }


def _environment(player: Player, task: Mapping[str, Any]) -> dict[str, str]:
    """The agent's environment: what it is allowed to see of ours, and the task."""
    model: TaskModel | None = task["model"]
    facts = {
        "HOME": str(player.home),
        "TMPDIR": str(player.home),
        "FLYWHEEL_TASK_FILE": str(player.home / "task.json"),
        "FLYWHEEL_STEPS_FILE": task["steps_file"],
        "FLYWHEEL_INSTRUCTION": task["instruction"],
        "FLYWHEEL_URL": task["url"] or "",
        "FLYWHEEL_SEED": str(task["seed"]),
        "FLYWHEEL_TEMPERATURE": str(task["temperature"]),
        "FLYWHEEL_DEADLINE": f"{task['deadline']:.3f}",
        "FLYWHEEL_MAX_STEPS": str(task["max_steps"]),
        "FLYWHEEL_ADVICE": "\n".join(task["advice"]),
        "FLYWHEEL_GUIDANCE": task["guidance"],
        "FLYWHEEL_NOTES": task["notes"],
        "FLYWHEEL_ACT_URL": task["act_url"],
        "FLYWHEEL_SEEN": task["seen"],
    }
    if model is not None:
        facts |= {
            "OPENAI_BASE_URL": model.openai_base_url,
            "OPENAI_API_KEY": model.key,
            "ANTHROPIC_BASE_URL": model.anthropic_base_url,
            "ANTHROPIC_API_KEY": model.key,
            "FLYWHEEL_MODEL": model.name,
        }
    cut = {name: value.replace("\0", "").encode("utf-8", "replace") for name, value in facts.items()}
    told = {name: value[:LONGEST_VARIABLE].decode("utf-8", "ignore") for name, value in cut.items()}
    return {**player.variables, **told}
