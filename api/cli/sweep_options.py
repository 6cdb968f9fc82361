"""Command-line options of sweeps, their validation and conversion."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Annotated

import typer

from agents.envs.environment import Environment
from agents.envs.foreign.dialect import Dialect, read_dialect
from agents.executors.executor import Executor
from agents.rollouts.decompose import decompose
from agents.rollouts.task_file import read_task_file
from agents.suites.tasks import refuse_planless
from eventlog.events import SweepPlanned, Template
from projections.runs import PLANLESS
from projections.sweeps import SweepsState

from ..controllers.variance_seek import Limits
from ..course import Course
from ..environments.suites import pin_suite
from ..house import House
from ..sweeps.executors import MODELLED, Way
from ..sweeps.models import agent_model
from ..sweeps.plan import site_templates
from ..sweeps.seeds import fresh_seeds

_MICRO = 1_000_000
_MOST_SEEDS = 100_000
_MOST_SIBLINGS = 6


def finite(given: float | list[float] | None) -> float | list[float] | None:
    """The given numbers. Raises BadParameter for NaN and infinity."""
    for each in given if isinstance(given, list) else [given]:
        if each is not None and not isfinite(each):
            raise typer.BadParameter(f"{each} is not a finite number; give a finite one")
    return given


Site = Annotated[str, typer.Argument(help="The site.")]
Tasks = Annotated[list[str] | None, typer.Option("--task", help="Only this task; may be repeated. Default: all.")]
Seeds = Annotated[
    str | None, typer.Option(metavar="A-B,C", help="Seeds, as ranges and numbers. Default: 12 unused ones.")
]
Siblings = Annotated[int, typer.Option(min=1, max=64, help="Runs per task instance; together they form a group.")]
Temperatures = Annotated[
    list[float] | None,
    typer.Option(
        "--temperature",
        min=0,
        max=2,
        callback=finite,
        help="With --executor policy: sampling temperature; repeat it to give one per sibling.",
    ),
]
Name = Annotated[str | None, typer.Option("--sweep", help="Name of the sweep. Default: the site and a number.")]
RngSeed = Annotated[int, typer.Option(min=0, help="Seed of the random draws.")]
Learn = Annotated[
    bool,
    typer.Option(
        "--learn/--no-learn",
        help="Propose rewrites after failures, and let the last sibling of groups of 4 or more try a candidate.",
    ),
]
TemplatesFile = Annotated[
    Path | None,
    typer.Option(
        "--templates",
        help="JSON list of tasks with plans, as steps or free text. Default: the tasks of the site's suite.",
    ),
]
How = Annotated[
    Way,
    typer.Option(
        "--executor",
        help="How runs are executed: a plan over HTTP or in Chromium, a model, or another Flywheel (remote).",
    ),
]
ToldMemory = Annotated[
    bool,
    typer.Option("--told", help="With --executor demonstration: say in the prompt what memory changed in the plan."),
]
ModelName = Annotated[
    str | None,
    typer.Option(
        "--model",
        help="With --executor policy: another model of the endpoint, or transformers:FOLDER; with remote, its model.",
    ),
]
ForGrpo = Annotated[bool, typer.Option("--for-grpo", help="Fail if the executor returns no token ids with logprobs.")]
MaxParallel = Annotated[int, typer.Option(min=1, max=64, help="Number of runs at the same time.")]
Timeout = Annotated[
    float | None, typer.Option(min=1, help="Time limit of a run in seconds; beyond it the run counts as missing.")
]
VerifySteps = Annotated[
    bool,
    typer.Option(
        "--verify-steps",
        help="Check each step against the site's record (one request per step), or with the judge's model.",
    ),
]
PlanOnly = Annotated[
    bool, typer.Option("--plan-only", help="Only put the runs in the queue, for `flywheel worker` to play.")
]
Seek = Annotated[
    bool, typer.Option("--variance-seek", help="Add siblings to groups whose runs all ended alike, one at a time.")
]
MaxSiblings = Annotated[
    int | None, typer.Option(min=1, max=64, help="With --variance-seek: maximum siblings per group. Default: 6.")
]
MaxCost = Annotated[
    float | None,
    typer.Option(min=0, callback=finite, help="With --variance-seek: stop when the sweep has cost this many dollars."),
]


def micro(given: Sequence[float]) -> list[int]:
    """Numbers in millionths."""
    return [round(each * _MICRO) for each in given]


def refuse_idle(
    executor: Way,
    model: str | None,
    temperatures: Sequence[float] | None,
) -> None:
    """Raise BadParameter if an option for models is given without `--executor policy`."""
    for option, given in (("--model", model), ("--temperature", temperatures)):
        if given and executor not in MODELLED:
            raise typer.BadParameter(f"{option} is only for models; add --executor policy or leave it out")


def refuse_shown(executor: Way, *, learn: bool) -> None:
    """Raise BadParameter for --learn with demonstrations, which only repeat their plan."""
    if learn and executor is Way.DEMONSTRATION:
        raise typer.BadParameter("--learn does not work with --executor demonstration; leave one of them out")


def refuse_untold(executor: Way, *, told: bool) -> None:
    """Raise BadParameter for --told without demonstrations: policies are always told, and plans read nothing."""
    if told and executor is not Way.DEMONSTRATION:
        raise typer.BadParameter("--told is only for demonstrations; add --executor demonstration or leave it out")


def variance_limits(max_siblings: int | None, max_cost: float | None, *, seek: bool, plan_only: bool) -> Limits | None:
    """Limits of variance seeking; None without `seek`. Raises BadParameter for limits without it."""
    for option, given in (("--max-siblings", max_siblings), ("--max-cost", max_cost)):
        if given is not None and not seek:
            raise typer.BadParameter(f"{option} needs --variance-seek; give both or neither")
    if seek and plan_only:
        raise typer.BadParameter("--variance-seek needs played runs; leave out --plan-only")
    cost = None if max_cost is None else micro([max_cost])[0]
    return Limits(_MOST_SIBLINGS if max_siblings is None else max_siblings, cost) if seek else None


def refuse_unplayed(*, verify_steps: bool, plan_only: bool) -> None:
    """Raise BadParameter for --verify-steps with --plan-only, which plays nothing."""
    if verify_steps and plan_only:
        raise typer.BadParameter("--plan-only plays nothing; give --verify-steps to `flywheel worker` instead")


def refuse_alike(
    executor: Way, planned: Sequence[SweepPlanned], temperatures: Sequence[int], *, wants_spread: bool
) -> None:
    """Raise BadParameter if siblings must differ (`wants_spread`) but a model would sample at temperature 0.

    Sweeps `planned` before keep their own temperatures.
    """
    stands = [spec.temperature_micro for event in planned for spec in event.specs]
    if wants_spread and executor in MODELLED and not any(stands or temperatures):
        raise typer.BadParameter("--for-grpo and --variance-seek need siblings that differ; add --temperature > 0")


def seeds_of(
    text: str | None,
    before: SweepsState,
    held: Collection[int],
    course: Course,
    amount: int | None = None,
) -> tuple[int, ...]:
    """The given seeds, else unused ones: in no sweep and held by no benchmark. Raises BadParameter."""
    return fresh_seeds(before, course, amount, held) if text is None else read_seeds(text)


def read_seeds(text: str) -> tuple[int, ...]:
    """Parse seeds such as `0-11,40`, 100,000 at most. Raises BadParameter."""
    ranges: list[range] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        try:
            ranges.append(range(int(first), int(last if dash else first) + 1))
        except ValueError as problem:
            raise typer.BadParameter(
                f"{part!r} is neither a seed nor a range; expected for example 0-11,40"
            ) from problem
        if not ranges[-1]:
            raise typer.BadParameter(f"the range {part!r} ends before it begins; expected for example 1-5")
    amount = sum(each.stop - each.start for each in ranges)
    if amount > _MOST_SEEDS:
        raise typer.BadParameter(f"{text!r} names {amount} seeds; expected {_MOST_SEEDS} at most")
    return tuple(seed for each in ranges for seed in each)


def dialect_from(file: Path | None) -> Dialect | None:
    """The dialect in a file; None without a file."""
    return None if file is None else read_dialect(file)


@dataclass(frozen=True, slots=True)
class Chosen:
    """The templates that a sweep plays, and the suite version that they come from; None for a file of templates."""

    templates: tuple[Template, ...]
    suite: str | None


def sweep_templates(
    house: House,
    client: Environment,
    site: str,
    executor: Executor,
    file: Path | None,
    suite: str | None,
    names: Sequence[str] | None,
) -> Chosen:
    """Templates of a file, else of the site's suite, filtered by name. Plans in free text are turned into steps.

    The configured model is called once for each text. Raises BadTaskFile, FileTooLarge, BadParameter, NoPlan, NoModel,
    ModelFailure, PlanRefused, and what pin_suite raises.
    """
    follows_plan = executor.name not in PLANLESS
    if file is None:
        pinned = pin_suite(house, client, site, suite, follows_plan=follows_plan)
        found = choose_templates(site_templates(client, pinned.suite), names)
        if follows_plan:
            refuse_planless(found)
        return Chosen(found, str(pinned))
    if suite is not None:
        raise typer.BadParameter("--templates and --suite both say what to play; give one of them")
    found = choose_templates(read_task_file(file), names)
    if all(template.plan_steps or template.plan_text is None for template in found):
        return Chosen(found, None)
    with agent_model(house.settings) as model:
        return Chosen(tuple(decompose(template, model, house.store, house.blobs) for template in found), None)


def choose_templates(found: Sequence[Template], names: Sequence[str] | None) -> tuple[Template, ...]:
    """The templates with these names; all without names. Raises BadParameter for an unknown name."""
    by_id = {template.template_id: template for template in found}
    for name in names or ():
        if name not in by_id:
            raise typer.BadParameter(f"the site has no task {name!r}; expected one of {', '.join(sorted(by_id))}")
    return tuple(by_id[name] for name in names) if names else tuple(found)
