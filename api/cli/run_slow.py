"""Options of `flywheel run --loop slow`, and the start of its controller."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final

import typer
from pydantic import TypeAdapter, ValidationError

from agents.executors.executor import Executor
from agents.executors.outside.agent_spec import AgentSpec
from eventlog.events import DpoConfig, GrpoConfig, SftConfig
from eventlog.weights_folder import Base, read_base
from projections.champions import CHAMPION, CHAMPIONS

from ..controllers.slow import SlowController
from ..controllers.slow_next import SlowCourse, StageOf
from ..controllers.warmup import Warming, is_told_briefly
from ..controllers.warmup_next import WarmingCourse, present_base
from ..course import Course
from ..environments.admission import first_admission
from ..environments.connect import Placed
from ..environments.suites import course_within, pin_suite
from ..house import House
from ..reporter import Reporter
from ..sweeps.executors import MODELLED, Way, executor_of
from ..sweeps.models import local_folder
from ..training.errors import BadConfig
from ..training.weights import base_of, folders_of

SFT: Final = SftConfig(steps=24, learning_rate="0.001", rows_per_step=8)
DPO: Final = DpoConfig(steps=12, learning_rate="0.0001", pairs_per_step=4)
GRPO: Final = GrpoConfig(
    steps=14, learning_rate="0.0015", groups_per_step=4, aggregation="bnpo", beta="0.01", rows_per_pass=4
)
STAGES: Final[tuple[StageOf, ...]] = (SFT, DPO, GRPO)
"""Default stages: sizes for a small model on a CPU, as measured by `make demo-slow`."""

BaseOf = Annotated[
    str | None,
    typer.Option(
        help="slow: the base model, as a folder or the digest of a warm-up [the last warm-up, else a small model "
        "trained on demonstrations]."
    ),
]
StagesOf = Annotated[
    Path | None,
    typer.Option("--stages", help="slow: a JSON list of training configurations, one per round [SFT, DPO, GRPO]."),
]
WarmUpOf = Annotated[
    Path | None,
    typer.Option("--warm-up", help="slow: a JSON object that configures the warm-up of a first base model."),
]
SiblingsOf = Annotated[int, typer.Option(min=2, max=64, help="slow: runs per task instance.")]

_STAGES: TypeAdapter[tuple[StageOf, ...]] = TypeAdapter(tuple[StageOf, ...])


def refuse_other_weights(house: House, executor: Way, base: str | None, agent: AgentSpec | None = None) -> None:
    """Raise BadParameter if the fast loop is played by other weights than those that the slow loop trains.

    They are those of the executor's model, or of the model before an `agent`. Raises what base_of raises of a base that
    is named.
    """
    if executor not in MODELLED and agent is None:
        return
    views, named, folder = house.views(), house.settings.model, local_folder(house.settings)
    served = read_base(folder).digest if folder is not None else house.settings.model_base if named else None
    is_begun = views.get(CHAMPIONS, CHAMPION) is not None
    trained = base_of(house, base, None).digest if base else present_base(views) if is_begun else None
    if served is None or served != trained:
        none = "an endpoint that loads no checkpoints" if named else "no model that the settings name"
        plays = f"the base {served[:12]}" if served else none
        who = f"--executor {executor.value}" if agent is None else "--agent"
        trains = f"the base {trained[:12]}" if trained else "a base that is not made yet"
        raise typer.BadParameter(
            f"both loops play the same weights, but {who} plays those of {plays} and the "
            f"slow loop trains {trains}; name the base with --base, and set FLYWHEEL_MODEL to transformers: and its "
            "folder, or FLYWHEEL_MODEL_BASE to its digest"
        )


def course_of(
    sizes: Course, stages: Path | None, rounds: int | None, siblings: int, tasks: Sequence[str] | None
) -> SlowCourse:
    """The course configured by the options. Raises BadConfig."""
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
        raise BadConfig(algorithm=f"the stages in {file}", where="the top", actual="the list is empty")
    return found


def _bad(what: str, error: ValidationError) -> BadConfig:
    first = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in first["loc"]) or "the top"
    return BadConfig(algorithm=what, where=where, actual=first["msg"])


def warming_of(file: Path | None, base: str | None) -> WarmingCourse:
    """The warm-up configured by a file. Raises BadConfig, and BadParameter if a base is named as well."""
    if file is None:
        return WarmingCourse()
    if base is not None:
        raise typer.BadParameter("--warm-up makes a first base model and --base names one; give only one of them")
    try:
        return WarmingCourse.model_validate_json(file.read_bytes())
    except ValidationError as error:
        raise _bad(f"the warm-up in {file}", error) from error


def go_slowly(
    house: House,
    placed: Placed,
    course: SlowCourse,
    base: str | None,
    warming: WarmingCourse,
    reporter: Reporter,
    suite: str | None,
    is_turn_over: Callable[[], bool],
    *,
    agent: AgentSpec | None = None,
) -> str:
    """Run the slow loop; returns why it ended. A base warmed up here gets the brief prompts of its training.

    An `agent` of one's own plays in place of a policy, before the same weights. No base is warmed up for it, because
    the demonstrations of a warm-up have the prompts of a policy.
    """

    def serve_base(found: Base) -> AbstractContextManager[Executor]:
        wording = "brief" if is_told_briefly(house, found.digest) else house.settings.policy_wording
        return executor_of(
            Way.POLICY,
            house.settings.model_copy(update={"policy_wording": wording}),
            model=f"transformers:{found.path.resolve()}",
            inside=placed.inside,
            folder_of=folders_of(house),
            agent=agent,
        )

    admit = first_admission(placed, reporter)
    site, client = placed.site.name, placed.environment

    def warm_up(own: House) -> str:
        pinned = pin_suite(own, client, site, suite, follows_plan=True)
        within = replace(course, sizes=course_within(course.sizes, pinned.suite))
        return Warming(own, client, site, within, warming, reporter, serve_base, pinned).run()

    may_warm_up = warm_up if placed.inside is None and agent is None else None
    named = None if suite is None else pin_suite(house, client, site, suite)
    return SlowController(
        house,
        client,
        site,
        course,
        reporter,
        serve_base,
        base,
        may_warm_up,
        admit,
        suite=named,
        is_turn_over=is_turn_over,
    ).run()
