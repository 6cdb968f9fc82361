"""Executor of an agent that is not ours: a process of its own plays the task, and the oracle grades the instance.

Nothing that the agent says is trusted: its steps are recorded as it reports them, and a run ends when its process ends
or exceeds a limit, whatever it says.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any, Final

from eventlog.events import RunStatus, Step
from projections.runs import AGENT

from ...envs.contract import Instance
from ...envs.errors import EnvironmentFailure
from ...learning.advice import READERS, Audience, notes_paragraphs
from ...models.model import Model
from ..by_weights import any_weights
from ..executor import Assignment, ExecutedStep, Execution, PassedOn, Verified, Watch, no_verification
from ..open_actions import open_step
from ..policy import Opening
from ..site_record import Door, SiteRecord, SiteRecorder
from ..surface import OpenSurface, Surface
from .action_access import serve_actions
from .agent_spec import AgentSpec
from .fence import run_fence
from .model_access import ModelAccess, no_model
from .reports import read_report
from .task import TaskModel
from .task_facts import AgentLimits, Player, agent_home, task_facts, warden_facts
from .warden_process import GRACE_S, warden_lines

LATEST_S: Final = 2 * GRACE_S
"""How long after an agent's time its run has ended at the latest."""

BY_ITSELF: Final = "the agent ended: exit code"
"""Begins the last step of an agent that was not ended."""

_STATUS: Final[dict[str, RunStatus]] = {"deadline": "out_of_budget", "steps": "out_of_budget"}
_ENDINGS: Final = {
    "deadline": "it was ended at its deadline",
    "steps": "it was ended, because it reported more steps than the task allows",
    "lines": "it was ended, because it wrote too many lines that are no steps into the file of its steps",
    "output": "it was ended, because it printed too much",
    "processes": "it was ended, because it started too many processes",
    "memory": "it was ended, because its processes took too much memory",
    "refused": "it could not be started",
    "lost": "its warden was gone",
}


@dataclass(frozen=True, slots=True)
class AgentExecutor:
    """Executor of an agent. `variables` are all that its environment has besides the task; `fence` starts its warden.

    `opening` opens a model endpoint for each run, which puts a paragraph of advice into each request and answers by the
    run's weights, as far as `load` knows them. `server` opens the model server behind it, for a first question (None:
    there is none). In an environment without pages the agent takes its actions on what `surfaces` opens. If it
    `records_site`, what its site and its model answer is kept, so that the agent can be played again without them.
    `told` are facts of the task that take the place of the executor's own. Behind a fence `hidden` folders look empty,
    but for what playing needs.
    """

    agent: AgentSpec
    limits: AgentLimits = field(default_factory=AgentLimits)
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)
    fence: tuple[str, ...] = ()
    opening: Callable[[str, str], AbstractContextManager[ModelAccess | None]] = no_model
    load: Callable[[str], None] = any_weights
    server: Callable[[], AbstractContextManager[Model]] | None = None
    name: str = AGENT
    offers_logprobs: bool = False
    audience: Audience = READERS
    surfaces: Opening | None = None
    records_site: bool = False
    told: Mapping[str, Any] = field(default_factory=dict)
    hidden: tuple[Path, ...] = ()

    @property
    def walks_pages(self) -> bool:
        """See Advised."""
        return self.surfaces is None

    def execute(self, assignment: Assignment, instance: Instance, watch: Watch = no_verification) -> Execution:
        """See Executor. Raises AgentChanged, WardenNotStarted, and ModelFailure if its model did not answer at last."""
        self.agent.refuse_changed()
        said = notes_paragraphs(assignment.guidance, assignment.advice)
        recorder = SiteRecorder() if self.records_site and _is_recordable(instance.address) else None
        with ExitStack() as stack:
            access = stack.enter_context(self.opening(said if self.agent.by_proxy else "", assignment.weights))
            home = stack.enter_context(agent_home())
            player = Player(self.agent, self.limits, home, self.variables)
            visit = _Visit(self, assignment, access, watch, recorder)
            url = visit.door(stack, "pages", instance.address)
            task = task_facts(player, assignment, url, visit.told_model(stack))
            if self.surfaces is not None:
                surface = stack.enter_context(self.surfaces(instance, assignment.page_headers))
                actions = stack.enter_context(serve_actions(visit.take_action))
                task |= visit.act_facts(surface, visit.door(stack, "actions", actions) or "")
            task |= self.told
            told = json.dumps(task, default=asdict)
            (home / "task.json").write_text(told, "utf-8")
            return visit.play(
                warden_facts(player, task, assignment), run_fence(self.fence, home, self.hidden, self.agent.folder)
            )


def _is_recordable(address: str | None) -> bool:
    """False for pages over TLS: with a proxy before them they would be another site."""
    return address is None or address.startswith("http://")


@dataclass
class _Visit:
    """One run: what the agent did and reported so far, and the model calls that it made. Actions come in threads."""

    executor: AgentExecutor
    assignment: Assignment
    access: ModelAccess | None
    watch: Watch
    recorder: SiteRecorder | None = None
    taken: list[ExecutedStep] = field(default_factory=list)
    passed_on: list[PassedOn] = field(default_factory=list)
    verified: list[Verified] = field(default_factory=list)
    surface: Surface | None = None
    lost: Exception | None = None
    is_spent: bool = False
    lock: Lock = field(default_factory=Lock)

    def door(self, stack: ExitStack, door: Door, address: str | None) -> str | None:
        """The address that the agent is told for this one: of a proxy that keeps its answers, if they are recorded."""
        if self.recorder is None or address is None:
            return address
        return stack.enter_context(self.recorder.open_door(door, address, self.executor.limits.seconds))

    def told_model(self, stack: ExitStack) -> TaskModel | None:
        """The model as the agent is told of it; None if there is none."""
        if self.access is None:
            return None
        model = self.access.model
        address = self.door(stack, "model", model.anthropic_base_url) or ""
        return TaskModel(
            f"{address}{model.openai_base_url.removeprefix(model.anthropic_base_url)}", address, model.key, model.name
        )

    def act_facts(self, surface: Surface, address: str) -> dict[str, Any]:
        """What the task tells of an environment without pages: its actions, what is seen, and where to act."""
        self.surface = surface
        actions = [asdict(each) for each in surface.actions] if isinstance(surface, OpenSurface) else []
        seen = surface.text() or ""
        if self.recorder is not None:
            self.recorder.actions, self.recorder.seen = actions, seen
        return {"actions": actions, "seen": seen, "act_url": address}

    def take_action(self, action: str, argument: str | None) -> dict[str, Any]:
        """See TakeAction. What the environment cannot take any more is not taken and not recorded."""
        with self.lock:
            surface = self.surface
            self.is_spent = self.is_spent or len(self.taken) >= self.assignment.max_steps
            if surface is None or self.is_spent or self.lost is not None:
                return {"outcome": "out_of_budget", "seen": "", "is_over": True}
            try:
                step = open_step(action, argument)
                acted = surface.act(step)
                seen = surface.text() or ""
                self._note_calls()
                if self.recorder is not None:
                    self.recorder.acted.append(len(self.taken))
                self._note_step(ExecutedStep(len(self.taken), step, acted.outcome, None, seen if acted.led else None))
            except EnvironmentFailure as failure:
                self.lost = failure
                return {"outcome": "server_error", "seen": "", "is_over": True}
            except Exception as failure:
                self.lost = failure  # `play` raises it: this thread would end alone, and the agent be graded for it
                raise
            return {"outcome": acted.outcome, "seen": seen, "is_over": acted.is_last}

    def play(self, told: Mapping[str, Any], fence: Sequence[str]) -> Execution:
        """Start the agent under its warden behind a fence, take its reports, and return what it did."""
        ending: dict[str, Any] = {"end": "lost"}
        path = self.executor.variables.get("PATH", os.defpath)
        own = warden_lines(fence, told, path, self.executor.limits.seconds)
        late_at = time.monotonic() + self.executor.limits.seconds + GRACE_S
        with closing(own) as lines:  # whatever fails meanwhile, the agent is ended
            for line in lines:
                if "end" in line:
                    ending = line
                elif isinstance(line.get("step"), str) and len(self.taken) < self.assignment.max_steps:
                    self._report(line["step"], is_checked=time.monotonic() < late_at)
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
            site=self._record(),
        )

    def _record(self) -> SiteRecord | None:
        """What went through the doors; None if it was not recorded."""
        if self.recorder is None:
            return None
        self.recorder.model = None if self.access is None else self.access.model.name
        self.recorder.page_headers = tuple(self.assignment.page_headers)
        return self.recorder.record()

    def _report(self, line: str, *, is_checked: bool) -> None:
        with self.lock:
            step = read_report(line, len(self.taken))
            if step is not None:
                self._note_calls()
                self._note_step(step, is_checked=is_checked)

    def _note_step(self, step: ExecutedStep, *, is_checked: bool = True) -> None:
        """Keep a step, with its check unless it is too late for one: an agent could report much and hang the run."""
        self.taken.append(step)
        if is_checked and (found := self.watch(step)) is not None:
            self.verified.append(found)

    def _note_calls(self) -> None:
        if self.access is not None:
            self.passed_on += self.access.calls(len(self.taken))


def _last_step(index: int, said: str, output: str) -> ExecutedStep:
    """How the agent ended, with the last of what it printed as the text that was seen."""
    return ExecutedStep(index, Step(type="finish", intent=said, value=""), "ok", None, output or None)


def _said_of(why: str, code: object) -> str:
    return f"{BY_ITSELF} {code}" if why == "exited" else f"the agent ended: {_ENDINGS.get(why, why)}"
