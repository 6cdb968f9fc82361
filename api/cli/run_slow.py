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
from eventlog.weights_folder import Base

from ..controllers.slow import SlowController
from ..controllers.slow_next import SlowCourse, StageOf
from ..controllers.warmup import Warming, is_told_briefly
from ..controllers.warmup_next import WarmingCourse
from ..course import Course
from ..environments.admission import first_admission
from ..environments.connect import Placed
from ..errors import BadConfig
from ..house import House
from ..sweeps.executors import Way, executor_of
from ..sweeps.jobs import Reporter
from ..training.weights import folders_of

SFT: Final = SftConfig(steps=24, learning_rate="0.001", rows_per_step=8)
DPO: Final = DpoConfig(steps=12, learning_rate="0.0001", pairs_per_step=4)
GRPO: Final = GrpoConfig(
    steps=14, learning_rate="0.0015", groups_per_step=4, aggregation="bnpo", beta="0.01", rows_per_pass=4
)
STAGES: Final[tuple[StageOf, ...]] = (SFT, DPO, GRPO)
"""What is trained where nobody says otherwise: sizes for a small model on a CPU, as `make demo-slow` measures them."""

BaseOf = Annotated[
    str | None,
    typer.Option(
        help="slow: the base model, a folder or the digest of a warm-up [the one warmed up last, else a small one is "
        "made of demonstrations]."
    ),
]
StagesOf = Annotated[
    Path | None,
    typer.Option("--stages", help="slow: a JSON list of training configurations, a round each [SFT, DPO, GRPO]."),
]
WarmUpOf = Annotated[
    Path | None,
    typer.Option("--warm-up", help="slow: a JSON object on how a first base model is made where there is none."),
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
        raise _bad(f"the stages in {file}", error) from error
    if not found:
        raise BadConfig(algorithm=f"the stages in {file}", where="the top", actual="there are none")
    return found


def _bad(what: str, error: ValidationError) -> BadConfig:
    first = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in first["loc"]) or "the top"
    return BadConfig(algorithm=what, where=where, actual=first["msg"])


def warming_of(file: Path | None, base: str | None) -> WarmingCourse:
    """The warm-up that a file asks for. Raises BadConfig, and BadParameter where a base is named beside it."""
    if file is None:
        return WarmingCourse()
    if base is not None:
        raise typer.BadParameter("--warm-up: it makes a first base model, and --base names one; leave one of them out")
    try:
        return WarmingCourse.model_validate_json(file.read_bytes())
    except ValidationError as error:
        raise _bad(f"the warm-up in {file}", error) from error


def go_slowly(
    house: House, placed: Placed, course: SlowCourse, base: str | None, warming: WarmingCourse, reporter: Reporter
) -> str:
    """Run the slow loop to its end; why it ended. A base that was warmed up here is told as little as it was shown."""

    def serve_base(found: Base) -> AbstractContextManager[Executor]:
        wording = "brief" if is_told_briefly(house, found.digest) else house.settings.policy_wording
        return executor_of(
            Way.POLICY,
            house.settings.model_copy(update={"policy_wording": wording}),
            model=f"transformers:{found.path.resolve()}",
            tabs=placed.tabs,
            folder_of=folders_of(house),
        )

    admit = first_admission(house, placed, reporter)
    site, client = placed.site.name, placed.environment
    warm_up = Warming(house, client, site, course, warming, reporter, serve_base).run if placed.tabs is None else None
    return SlowController(house, client, site, course, reporter, serve_base, base, warm_up, admit).run()
