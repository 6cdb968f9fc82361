"""Workers of a delegation loop: a model that calls and writes tools, a command, or a function."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from eventlog.events import LoopConfig, Sampling

from ...delegation.answers import recover_object
from ...delegation.prompts import WORKER, WorkOrder, worker_prompt
from ...delegation.tool_policy import ToolSpec, read_tool
from ...models.model import ChatMessage, Completion, CompletionRequest, Model
from .errors import WorkerFailed
from .forge import ForgedTool
from .sandbox import Boxed

LONGEST_OUTPUT: Final = 200_000
_SHOWN: Final = 4_000


class WorkDesk(Protocol):
    """Models, tools and time for a worker. Each use is charged, and refused once the budget is spent."""

    def ask(self, model: Model, messages: Sequence[ChatMessage], sampling: Sampling) -> str:
        """Ask a model. Raises ModelFailure, WorkerOverBudget."""
        ...

    def complete(self, model: Model, request: CompletionRequest) -> Completion:
        """Have a model answer a request. Raises ModelFailure, WorkerOverBudget."""
        ...

    def count_step(self, *, is_failed: bool) -> None:
        """Count a step of an environment as a tool call. Raises WorkerOverBudget."""
        ...

    def call_tool(self, name: str, arguments: Mapping[str, Any]) -> Boxed:
        """Call a tool. Raises WorkerOverBudget."""
        ...

    def write_tool(self, spec: ToolSpec) -> ForgedTool:
        """Have a tool checked and registered. Raises WorkerOverBudget."""
        ...

    def seconds_left(self) -> float:
        """Wall time that is left to the loop."""
        ...


class Worker(Protocol):
    """Does an order. Thread-safe."""

    @property
    def name(self) -> str:
        """Name recorded with the loop."""
        ...

    def work(self, order: WorkOrder, desk: WorkDesk) -> dict[str, Any]:
        """The result of an order. Raises ModelFailure, WorkerFailed, WorkerOverBudget."""
        ...


@dataclass(frozen=True)
class FunctionWorker:
    """A worker that is a Python function."""

    function: Callable[[WorkOrder, WorkDesk], dict[str, Any]]
    name: str = "function"

    def work(self, order: WorkOrder, desk: WorkDesk) -> dict[str, Any]:
        """See Worker.work."""
        return self.function(order, desk)


@dataclass(frozen=True)
class CommandWorker:
    """A worker that is a command of the operator: the order as JSON on its input, a JSON object on its output."""

    command: tuple[str, ...]
    timeout_s: float = 300.0

    @property
    def name(self) -> str:
        """See Worker."""
        return f"command:{self.command[0]}"[:200]

    def work(self, order: WorkOrder, desk: WorkDesk) -> dict[str, Any]:
        """See Worker.work."""
        asked = {
            "worker": order.worker,
            "instructions": order.instructions,
            "skills": list(order.skills),
            "state": dict(order.state),
            "seed": order.seed,
        }
        told = json.dumps(asked, default=str).encode()
        try:
            ended = run_in_group(self.command, told, min(self.timeout_s, desk.seconds_left()))
        except (OSError, subprocess.TimeoutExpired) as problem:
            raise WorkerFailed(worker=order.worker, actual=str(problem)[:300]) from problem
        found = recover_object(ended.stdout[:LONGEST_OUTPUT].decode(errors="replace"))
        if ended.returncode != 0 or found is None:
            said = ended.stderr.decode(errors="replace").strip()[-300:]
            raise WorkerFailed(worker=order.worker, actual=f"exit {ended.returncode}, no JSON object; {said}")
        return found.value


def run_in_group(command: tuple[str, ...], told: bytes, timeout_s: float) -> subprocess.CompletedProcess[bytes]:
    """Run a command in a process group of its own, which ends with it. Raises OSError, TimeoutExpired."""
    pipe = subprocess.PIPE
    with subprocess.Popen(  # noqa: S603 the operator named this command
        command, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
    ) as child:
        try:
            out, said = child.communicate(told, timeout=timeout_s)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
    return subprocess.CompletedProcess(command, child.returncode, out, said)


@dataclass(frozen=True)
class ModelWorker:
    """A worker that is a model, with as many rounds as the configuration gives it."""

    model: Model
    config: LoopConfig = field(default_factory=LoopConfig)

    @property
    def name(self) -> str:
        """See Worker."""
        return self.model.name

    def work(self, order: WorkOrder, desk: WorkDesk) -> dict[str, Any]:
        """See Worker.work."""
        messages = [ChatMessage("system", (WORKER,)), ChatMessage("user", (worker_prompt(order),))]
        for number in range(self.config.worker_rounds):
            sampling = Sampling(
                temperature_micro=self.config.temperature if order.temperature is None else order.temperature,
                max_tokens=self.config.max_tokens,
                seed=(order.seed + number) % 2**31 if self.model.offers.seed else None,
            )
            answer = desk.ask(self.model, messages, sampling)
            found = recover_object(answer)
            if found is None:
                return {"result": answer[:_SHOWN], "confidence": None}
            told = _act(found.value, desk)
            if told is None:
                return found.value
            messages += [ChatMessage("assistant", (answer,)), ChatMessage("user", (told,))]
        return {"error": f"no answer within {self.config.worker_rounds} rounds"}


def one_request(messages: Sequence[ChatMessage], sampling: Sampling, schema: Any = None) -> CompletionRequest:
    """A request for one sample."""
    return CompletionRequest(tuple(messages), sampling, schema)


def _act(asked: dict[str, Any], desk: WorkDesk) -> str | None:
    """Do what a worker asks for, and return what it is told; None if it gave its answer."""
    match asked.get("action"):
        case "call":
            arguments = asked.get("arguments")
            found = desk.call_tool(str(asked.get("tool")), arguments if isinstance(arguments, dict) else {})
            if found.value is None:
                return f"The tool failed: {found.error}"
            return f"The tool returned: {json.dumps(found.value, ensure_ascii=False)[:_SHOWN]}"
        case "create_tool":
            spec = read_tool(asked)
            if spec is None:
                return "That is no tool: expected `fqn` and `code`."
            made = desk.write_tool(spec)
            if made.fault is not None:
                return f"The tool was refused: {made.fault.why}. {made.fault.hint}"
            return f"The tool {made.spec.fqn} is there."
        case _:
            return None
