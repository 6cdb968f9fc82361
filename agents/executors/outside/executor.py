"""Executor of an agent that is not ours: a process of its own plays the task, and the oracle grades the instance.

Nothing that the agent says is trusted: its steps are recorded as it reports them, and a run ends when its process ends
or exceeds a limit, whatever it says.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any, Final

from eventlog.events import RunStatus, Step
from projections.runs import AGENT

from ...envs.contract import MICRO, Instance
from ...envs.errors import EnvironmentFailure
from ...learning.advice import READERS, Audience, notes_paragraphs
from ...models.model import Model
from ..episodes.surface import EpisodeSurface
from ..executor import Assignment, ExecutedStep, Execution, PassedOn, Verified, Watch, no_verification
from ..open_actions import open_step
from ..policy import Opening
from ..surface import Surface
from .action_access import serve_actions
from .agent_spec import AgentSpec
from .fence import show_home_alone
from .model_access import ModelAccess, any_weights, no_model
from .reports import read_report
from .task import TaskModel
from .warden_process import GRACE_S, warden_lines

LATEST_S: Final = 2 * GRACE_S
"""How long after an agent's time its run has ended at the latest."""

LONGEST_VARIABLE: Final = 65_536
"""Most bytes of a fact in the environment, where a system allows 128 KiB; the task file has it whole."""

_STATUS: Final[dict[str, RunStatus]] = {"deadline": "out_of_budget", "steps": "out_of_budget"}
_ENDINGS: Final = {
    "deadline": "it was ended at its deadline",
    "steps": "it was ended, because it reported more steps than the task allows",
    "output": "it was ended, because it printed too much",
    "processes": "it was ended, because it started too many processes",
    "memory": "it was ended, because its processes took too much memory",
    "refused": "it could not be started",
    "lost": "its warden was gone",
}


@dataclass(frozen=True, slots=True)
class AgentLimits:
    """Limits of one run of an agent: its time in seconds, and what it may print, start, hold and write."""

    seconds: float = 120.0
    output_bytes: int = 2**20
    processes: int = 64
    memory_bytes: int = 4 * 2**30
    file_bytes: int = 256 * 2**20


@dataclass(frozen=True, slots=True)
class AgentExecutor:
    """Executor of an agent. `variables` are all that its environment has besides the task; `fence` starts its warden.

    `opening` opens a model endpoint for each run, which puts a paragraph of advice into each request and answers by the
    run's weights, as far as `load` knows them. `server` opens the model server behind it, for a first question (None:
    there is none). In an environment without pages the agent takes its actions on what `surfaces` opens.
    """

    agent: AgentSpec
    limits: AgentLimits = AgentLimits()
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)
    fence: tuple[str, ...] = ()
    opening: Callable[[str, str], AbstractContextManager[ModelAccess | None]] = no_model
    load: Callable[[str], None] = any_weights
    server: Callable[[], AbstractContextManager[Model]] | None = None
    name: str = AGENT
    offers_logprobs: bool = False
    audience: Audience = READERS
    surfaces: Opening | None = None

    @property
    def walks_pages(self) -> bool:
        """See Advised."""
        return self.surfaces is None

    def execute(self, assignment: Assignment, instance: Instance, watch: Watch = no_verification) -> Execution:
        """See Executor. Raises AgentChanged, and ModelFailure if the model that it was given did not answer at last."""
        self.agent.refuse_changed()
        said = notes_paragraphs(assignment.guidance, assignment.advice)
        with ExitStack() as stack:
            access = stack.enter_context(self.opening(said if self.agent.by_proxy else "", assignment.weights))
            home = stack.enter_context(_home())
            task = _task_facts(self, assignment, instance, home, None if access is None else access.model)
            visit = _Visit(self, assignment, access, watch)
            if self.surfaces is not None:
                surface = stack.enter_context(self.surfaces(instance, assignment.page_headers))
                task |= visit.act_facts(surface, stack.enter_context(serve_actions(visit.take_action)))
            told = json.dumps(task, default=asdict)
            (home / "task.json").write_text(told, "utf-8")
            return visit.play(_warden_facts(self, task, home, assignment), show_home_alone(self.fence, home))


@dataclass
class _Visit:
    """One run: what the agent did and reported so far, and the model calls that it made. Actions come in threads."""

    executor: AgentExecutor
    assignment: Assignment
    access: ModelAccess | None
    watch: Watch
    taken: list[ExecutedStep] = field(default_factory=list)
    passed_on: list[PassedOn] = field(default_factory=list)
    verified: list[Verified] = field(default_factory=list)
    surface: Surface | None = None
    lost: Exception | None = None
    is_spent: bool = False
    lock: Lock = field(default_factory=Lock)

    def act_facts(self, surface: Surface, address: str) -> dict[str, Any]:
        """What the task tells of an environment without pages: its actions, what is seen, and where to act."""
        self.surface = surface
        actions = surface.actions if isinstance(surface, EpisodeSurface) else ()
        return {"actions": [asdict(each) for each in actions], "seen": surface.text() or "", "act_url": address}

    def take_action(self, action: str, argument: str | None) -> dict[str, Any]:
        """See TakeAction. What the environment cannot take any more is not taken and not recorded."""
        with self.lock:
            surface = self.surface
            self.is_spent = self.is_spent or len(self.taken) >= self.assignment.max_steps
            if surface is None or self.is_spent or self.lost is not None:
                return {"outcome": "out_of_budget", "seen": "", "is_over": True}
            try:
                acted = surface.act(open_step(action, argument))
                seen = surface.text() or ""
            except EnvironmentFailure as failure:
                self.lost = failure
                return {"outcome": "server_error", "seen": "", "is_over": True}
            except Exception as failure:
                self.lost = failure  # `play` raises it: this thread would end alone, and the agent be graded for it
                raise
            self._note_calls()
            step = open_step(action, argument)
            self._note_step(ExecutedStep(len(self.taken), step, acted.outcome, None, seen if acted.led else None))
            return {"outcome": acted.outcome, "seen": seen, "is_over": acted.is_last}

    def play(self, told: Mapping[str, Any], fence: Sequence[str]) -> Execution:
        """Start the agent under its warden behind a fence, take its reports, and return what it did."""
        ending: dict[str, Any] = {"end": "lost"}
        path = self.executor.variables.get("PATH", os.defpath)
        own = warden_lines(fence, told, path, self.executor.limits.seconds)
        with closing(own) as lines:  # whatever fails meanwhile, the agent is ended
            for line in lines:
                if "end" in line:
                    ending = line
                elif isinstance(line.get("step"), str) and len(self.taken) < self.assignment.max_steps:
                    self._report(line["step"])
        why, code = str(ending["end"]), ending.get("code")
        if self.access is not None:
            self.access.close()
        with self.lock:
            self.surface = None  # nothing is done after the end
            if self.lost is not None:
                raise self.lost
            self._note_calls()
            self.taken.append(_last_step(len(self.taken), _said_of(why, code), str(ending.get("output") or "")))
        is_done = why == "exited" and code == 0 and not self.is_spent
        status: RunStatus = "completed" if is_done else _STATUS.get("steps" if self.is_spent else why, "halted")
        return Execution(
            tuple(self.taken),
            status,
            verified=tuple(self.verified),
            is_reported=True,
            passed_on=tuple(self.passed_on),
        )

    def _report(self, line: str) -> None:
        with self.lock:
            step = read_report(line, len(self.taken))
            if step is not None:
                self._note_calls()
                self._note_step(step)

    def _note_step(self, step: ExecutedStep) -> None:
        self.taken.append(step)
        if (found := self.watch(step)) is not None:
            self.verified.append(found)

    def _note_calls(self) -> None:
        if self.access is not None:
            self.passed_on += self.access.calls(len(self.taken))


def _last_step(index: int, said: str, output: str) -> ExecutedStep:
    """How the agent ended, with the last of what it printed as the text that was seen."""
    return ExecutedStep(index, Step(type="finish", intent=said, value=""), "ok", None, output or None)


def _said_of(why: str, code: object) -> str:
    return f"the agent ended: exit code {code}" if why == "exited" else f"the agent ended: {_ENDINGS.get(why, why)}"


@contextmanager
def _home() -> Iterator[Path]:
    """A new folder that is the agent's home; it is removed at the end, whatever lies in it."""
    home = Path(tempfile.mkdtemp(prefix="run-", dir=_homes()))
    try:
        yield home
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _homes() -> Path:
    """The folder of this user that has the homes of all runs. Raises PermissionError if it is another user's."""
    found = Path(tempfile.gettempdir()) / f"flywheel-agents-{os.getuid()}"
    found.mkdir(mode=0o700, exist_ok=True)
    if found.lstat().st_uid != os.getuid():
        raise PermissionError(f"{found} belongs to another user; set TMPDIR to a folder of yours")
    return found


def _task_facts(
    executor: AgentExecutor, assignment: Assignment, instance: Instance, home: Path, model: TaskModel | None
) -> dict[str, Any]:
    """The task as the file and the environment tell it. The instance's seed and id are no part of it."""
    return {
        "instruction": assignment.instruction,
        "url": instance.address,
        "seed": assignment.seed,
        "temperature": assignment.temperature_micro / MICRO,
        "deadline": time.time() + executor.limits.seconds,
        "max_steps": assignment.max_steps,
        "advice": [] if executor.agent.by_proxy else list(assignment.advice),
        "guidance": "" if executor.agent.by_proxy else assignment.guidance,
        "notes": "" if executor.agent.by_proxy else notes_paragraphs(assignment.guidance, assignment.advice),
        "actions": [],
        "seen": "",
        "act_url": "",
        "page_headers": dict(assignment.page_headers),
        "model": model,
        "steps_file": str(home / "steps.jsonl"),
    }


def _warden_facts(
    executor: AgentExecutor, task: Mapping[str, Any], home: Path, assignment: Assignment
) -> dict[str, Any]:
    return {
        "command": list(executor.agent.words),
        "folder": str(executor.agent.folder),
        "home": str(home),
        "variables": _environment(executor.variables, task, home),
        "steps_file": task["steps_file"],
        "steps": assignment.max_steps,
        **asdict(executor.limits),
    }


def _environment(variables: Mapping[str, str], task: Mapping[str, Any], home: Path) -> dict[str, str]:
    """The agent's environment: what it is allowed to see of ours, and the task."""
    model: TaskModel | None = task["model"]
    facts = {
        "HOME": str(home),
        "TMPDIR": str(home),
        "FLYWHEEL_TASK_FILE": str(home / "task.json"),
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
    return {**variables, **{name: value[:LONGEST_VARIABLE].decode("utf-8", "ignore") for name, value in cut.items()}}
