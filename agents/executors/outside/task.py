"""The task as an agent gets it, and the program that calls a function of Python with it.

It is run as a file, by the interpreter of Flywheel and before the agent's module is loaded, so it imports the standard
library only. An agent in another language reads the same facts from the environment and from the file that
`FLYWHEEL_TASK_FILE` names.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class TaskModel:
    """A model that an agent may ask: base addresses for OpenAI's and Anthropic's clients, a key, and its name.

    The key is good for this run alone.
    """

    openai_base_url: str
    anthropic_base_url: str
    key: str = field(repr=False)
    name: str


@dataclass(frozen=True)
class AgentTask:
    """A task to do. `url` is the first page of a fresh instance, None where the environment has no pages.

    There `actions` are what can be done (each with `name`, `about` and `argument`: text, json or none), and `seen` is
    what the environment shows at first; `act` takes one.

    `seed` is a number for the agent's own random choices, and says nothing of the instance. `temperature` is what its
    model should sample at: above 0 where siblings have to differ, 0 before the gate. `deadline` is in seconds
    since 1970, after which the agent is ended. `advice` holds lines that helped before, best first; their words may be
    those of a page. `guidance` is the instruction that memory holds for tasks like this one, or empty. `notes` is both
    for a prompt: paragraphs that say what they are and quote each line, empty without any. `page_headers` belong to
    every request for a page. `model` is None if no model is set.
    """

    instruction: str
    url: str | None
    seed: int
    temperature: float
    deadline: float
    max_steps: int
    advice: tuple[str, ...]
    guidance: str
    notes: str
    page_headers: dict[str, str]
    model: TaskModel | None
    steps_file: str = field(repr=False, default="")
    actions: tuple[dict[str, str], ...] = ()
    seen: str = ""
    act_url: str = field(repr=False, default="")

    def act(self, action: str, argument: str | dict[str, Any] | None = None) -> dict[str, Any]:
        """Take an action where there are no pages. The answer has `outcome`, `seen` and `is_over`.

        Raises ValueError where there are pages, and what urllib raises.
        """
        if not self.act_url:
            raise ValueError("this task has pages: act on them at its url")
        body = json.dumps({"action": action, "argument": argument}).encode()
        with urllib.request.urlopen(urllib.request.Request(self.act_url, body)) as answer:  # noqa: S310 ours
            return dict(json.load(answer))

    def step(self, name: str, **details: Any) -> None:
        """Report a step, at once. It is recorded as said, and never counts for a grade.

        `details` may be `argument`, `url`, `label`, `value`, `intent`, `outcome`, `status` and `text`.
        """
        line = json.dumps({"name": name, **details}, ensure_ascii=True, default=str)
        with open(self.steps_file, "ab", buffering=0) as steps:  # noqa: PTH123 one write a line, with no library
            steps.write(line.encode() + b"\n")


def read_task(file: str) -> AgentTask:
    """The task in a file."""
    told = json.loads(Path(file).read_bytes())
    model = told.pop("model")
    advice, actions = tuple(told.pop("advice")), tuple(told.pop("actions"))
    return AgentTask(**told, advice=advice, actions=actions, model=None if model is None else TaskModel(**model))


def main(module: str, function: str) -> None:
    """Call the function of the module with the task. Raises whatever the agent raises."""
    sys.path[0] = str(Path.cwd())  # where the agent lies, in place of the folder of this file
    task = read_task(os.environ["FLYWHEEL_TASK_FILE"])
    getattr(importlib.import_module(module), function)(task)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
