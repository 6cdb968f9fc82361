"""The opening of a loop, and of one that was killed before."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from eventlog.events import LoopConfig, LoopOpened, OfferedSkill, OfferedTool, SandboxKind

from ...delegation.results import plain_line
from ...delegation.wording import prompt_wording
from .errors import BadLoopTask
from .journal import LoopJournal

MOST_TASK: Final = 1_048_576
"""The longest task in characters."""


@dataclass(frozen=True)
class Opening:
    """Content of a loop's first event. `skills` and `tools` are those of earlier runs. `root` None: the loop itself."""

    task: str
    manager: str
    worker: str
    config: LoopConfig = field(default_factory=LoopConfig)
    seed: int = 0
    sandbox: SandboxKind = "none"
    graded: bool = False
    grader: str | None = None
    validator: str | None = None
    commands_known: bool = True
    refines: str | None = None
    parent: str | None = None
    root: str | None = None
    depth: int = 0
    skills: tuple[OfferedSkill, ...] = ()
    tools: tuple[OfferedTool, ...] = ()


def open_loop(journal: LoopJournal, opening: Opening) -> None:
    """Record the opening of a loop. Raises BadLoopTask, LoopElsewhere."""
    task = opening.task.strip()
    if not task:
        raise BadLoopTask(actual="no text", expected="a sentence that says what is to be done")
    if len(task) > MOST_TASK:
        raise BadLoopTask(actual=f"{len(task)} characters", expected=f"at most {MOST_TASK}")
    journal.append(
        LoopOpened(
            loop=journal.loop,
            task=journal.put_text(task),
            task_line=plain_line(task, 200),
            manager=opening.manager,
            worker=opening.worker,
            config=opening.config,
            seed=opening.seed,
            parent=opening.parent,
            root=opening.root or journal.loop,
            depth=opening.depth,
            graded=opening.graded,
            grader=opening.grader,
            validator=opening.validator,
            commands_known=opening.commands_known,
            refines=opening.refines,
            prompts=prompt_wording(),
            sandbox=opening.sandbox,
            skills=opening.skills if opening.config.skills.enabled else (),
            tools=opening.tools if opening.config.tools.enabled else (),
        )
    )
