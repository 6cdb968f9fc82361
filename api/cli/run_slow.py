"""What `flywheel run --loop slow` is told, and the controller that it starts."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final

import typer
from pydantic import TypeAdapter, ValidationError

from agents.executors.executor import Executor
from eventlog.events import DpoConfig, GrpoConfig, SftConfig
from trainer.bases import Base

from ..admitting import admitting
from ..decide import Course
from ..errors import BadConfig
from ..executing import Way, executor_of
from ..house import House
from ..playing import Reporter
from ..sites import Placed
from ..slow import SlowController
from ..slow_decide import SlowCourse, StageOf
from ..weights import folders_of

STAGES: Final[tuple[StageOf, ...]] = (
    SftConfig(steps=30, learning_rate="0.002", rows_per_step=8),
    DpoConfig(steps=30, learning_rate="0.001", pairs_per_step=8),
    GrpoConfig(steps=30, learning_rate="0.002", groups_per_step=2, beta="0.01", rows_per_pass=8),
)
"""What is trained where nobody says otherwise: sizes for a small model on a CPU."""

BaseOf = Annotated[
    str | None,
    typer.Option(help="slow: the base model, a folder or the digest of a warm-up [the one warmed up last]."),
]
StagesOf = Annotated[
    Path | None,
    typer.Option("--stages", help="slow: a JSON list of training configurations, a round each [SFT, DPO, GRPO]."),
]
SiblingsOf = Annotated[int, typer.Option(min=2, max=64, help="slow: runs of each instance.")]

_STAGES: TypeAdapter[tuple[StageOf, ...]] = TypeAdapter(tuple[StageOf, ...])


def course_of(
    sizes: Course, stages: Path | None, rounds: int | None, siblings: int, tasks: Sequence[str] | None
) -> SlowCourse:
    """The course that options ask for. Raises BadConfig."""
    found = STAGES if stages is None else _stages_in(stages)
    return SlowCourse(
        stages=found,
        max_rounds=len(found) if rounds is None else rounds,
        sizes=replace(sizes, siblings=siblings),
        tasks=tuple(tasks or ()),
    )


def _stages_in(file: Path) -> tuple[StageOf, ...]:
    try:
        found = _STAGES.validate_json(file.read_bytes())
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the top"
        raise BadConfig(algorithm=f"the stages in {file}", where=where, actual=first["msg"]) from error
    if not found:
        raise BadConfig(algorithm=f"the stages in {file}", where="the top", actual="there are none")
    return found


def go_slowly(house: House, placed: Placed, course: SlowCourse, base: str | None, reporter: Reporter) -> str:
    """Run the slow loop to its end; why it ended."""

    def serving(found: Base) -> AbstractContextManager[Executor]:
        return executor_of(
            Way.POLICY,
            house.settings,
            model=f"transformers:{found.path.resolve()}",
            tabs=placed.tabs,
            folder_of=folders_of(house),
        )

    admit = admitting(house, placed, reporter)
    site = placed.site.name
    return SlowController(house, placed.environment, site, course, reporter, serving, base, admit=admit).run()
