"""What a sweep is told on the command line, and what is meant by it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import isfinite
from pathlib import Path
from typing import Annotated

import typer
from pydantic import TypeAdapter

from agents.envs.environment import Environment
from agents.envs.foreign.dialect import Dialect, read_dialect
from agents.rollouts.decompose import decompose
from eventlog.events import SweepPlanned, Template

from ..controllers.variance_seek import Limits
from ..course import Course
from ..house import House
from ..sweeps.executors import Way
from ..sweeps.models import agent_model
from ..sweeps.plan import site_templates
from ..sweeps.seeds import fresh_seeds

_FILE = TypeAdapter(tuple[Template, ...])
_MICRO = 1_000_000
_MOST_SEEDS = 100_000
_MOST_SIBLINGS = 6


def finite(given: float | list[float] | None) -> float | list[float] | None:
    """Numbers as they were given. Raises BadParameter for those that are none."""
    for each in given if isinstance(given, list) else [given]:
        if each is not None and not isfinite(each):
            raise typer.BadParameter(f"{each} is no number to go by; expected a finite one")
    return given


Site = Annotated[str, typer.Argument(help="The site to play on.")]
Tasks = Annotated[list[str] | None, typer.Option("--task", help="Only this task; may be given again. Default: all.")]
Seeds = Annotated[
    str | None, typer.Option(metavar="A-B,C", help="Seeds, as ranges and numbers. Default: 12 that no sweep has seen.")
]
Siblings = Annotated[int, typer.Option(min=1, max=64, help="Runs of each instance: one group.")]
Temperatures = Annotated[
    list[float] | None,
    typer.Option(
        "--temperature",
        min=0,
        max=2,
        callback=finite,
        help="With --executor policy: what it draws with; given again: sibling by sibling.",
    ),
]
Name = Annotated[str | None, typer.Option("--sweep", help="The sweep's name. Default: the site and a number.")]
RngSeed = Annotated[int, typer.Option(min=0, help="What is drawn, is drawn by this.")]
Learn = Annotated[
    bool,
    typer.Option("--learn/--no-learn", help="Let failures propose rewrites, and last siblings of 4 try candidates."),
]
TemplatesFile = Annotated[
    Path | None,
    typer.Option(
        "--templates", help="The tasks with their plans, in steps or free text: a list in JSON. Default: our own."
    ),
]
How = Annotated[Way, typer.Option("--executor", help="How: a plan over HTTP or in Chromium, or a model.")]
ModelName = Annotated[
    str | None,
    typer.Option("--model", help="With --executor policy: another model of that endpoint, or transformers:FOLDER."),
]
ForGrpo = Annotated[bool, typer.Option("--for-grpo", help="Refuse an executor that gives no token ids with logprobs.")]
MaxParallel = Annotated[int, typer.Option(min=1, max=64, help="Runs side by side; 1 is sequential.")]
Timeout = Annotated[float | None, typer.Option(min=1, help="Seconds a run may take; then it is missing.")]
VerifySteps = Annotated[
    bool,
    typer.Option(
        "--verify-steps",
        help="Check each step: by the site's own record, a request a step, or by the judge's model where it has none.",
    ),
]
PlanOnly = Annotated[
    bool, typer.Option("--plan-only", help="Put its runs in the queue, and leave them to `flywheel worker`.")
]
Seek = Annotated[
    bool, typer.Option("--variance-seek", help="Add siblings to groups whose runs all ended alike, one at a time.")
]
MaxSiblings = Annotated[
    int | None, typer.Option(min=1, max=64, help="With --variance-seek: at most so many a group. Default: 6.")
]
MaxCost = Annotated[
    float | None,
    typer.Option(min=0, callback=finite, help="With --variance-seek: stop when the sweep has cost so many dollars."),
]


def micro(given: Sequence[float]) -> list[int]:
    """Numbers in millionths."""
    return [round(each * _MICRO) for each in given]


def refuse_idle(
    executor: Way,
    model: str | None,
    temperatures: Sequence[float] | None,
) -> None:
    """Raise BadParameter for what only a model would need, where none is asked."""
    for option, given in (("--model", model), ("--temperature", temperatures)):
        if given and executor is not Way.POLICY:
            raise typer.BadParameter(f"{option} is for a model: expected it with --executor policy")


def refuse_shown(executor: Way, *, learn: bool) -> None:
    """Raise BadParameter where demonstrations are to be learned from as runs: they say what a plan says."""
    if learn and executor is Way.DEMONSTRATION:
        raise typer.BadParameter("--learn tries what memory holds: expected it without --executor demonstration")


def limits_of(max_siblings: int | None, max_cost: float | None, *, seek: bool, plan_only: bool) -> Limits | None:
    """Where seeking stops; None where nothing is sought. Raises BadParameter for limits of nothing."""
    for option, given in (("--max-siblings", max_siblings), ("--max-cost", max_cost)):
        if given is not None and not seek:
            raise typer.BadParameter(f"{option} limits --variance-seek: expected both or neither")
    if seek and plan_only:
        raise typer.BadParameter("--variance-seek adds to what was played: expected it without --plan-only")
    cost = None if max_cost is None else micro([max_cost])[0]
    return Limits(_MOST_SIBLINGS if max_siblings is None else max_siblings, cost) if seek else None


def refuse_unplayed(*, verify_steps: bool, plan_only: bool) -> None:
    """Raise BadParameter for what is done while playing, where nothing is played."""
    if verify_steps and plan_only:
        raise typer.BadParameter(
            "--verify-steps checks what is played: say it to `flywheel worker`, and leave it out with --plan-only"
        )


def refuse_alike(
    executor: Way, planned: Sequence[SweepPlanned], temperatures: Sequence[int], *, wants_spread: bool
) -> None:
    """Raise BadParameter where siblings are to differ and a model would draw the same for each of them.

    What was `planned` before has its own temperatures.
    """
    stands = [spec.temperature_micro for event in planned for spec in event.specs]
    if wants_spread and executor is Way.POLICY and not any(stands or temperatures):
        raise typer.BadParameter(
            "--for-grpo and --variance-seek need siblings that differ: plan it with --temperature > 0"
        )


def seeds_of(
    text: str | None,
    before: Sequence[SweepPlanned],
    held: Collection[int],
    course: Course,
    amount: int | None = None,
) -> tuple[int, ...]:
    """The seeds asked for, else so many that no sweep `before` has seen and no benchmark holds. Raises BadParameter."""
    return fresh_seeds(before, course, amount, held) if text is None else read_seeds(text)


def read_seeds(text: str) -> tuple[int, ...]:
    """Seeds of a text such as `0-11,40`, 100,000 at most. Raises BadParameter."""
    ranges: list[range] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        try:
            ranges.append(range(int(first), int(last if dash else first) + 1))
        except ValueError as problem:
            raise typer.BadParameter(f"{part!r} is no seed and no range; expected such as 0-11,40") from problem
    amount = sum(max(0, each.stop - each.start) for each in ranges)
    if amount > _MOST_SEEDS:
        raise typer.BadParameter(f"{text!r} are {amount} seeds; expected {_MOST_SEEDS} at most")
    return tuple(seed for each in ranges for seed in each)


def dialect_from(file: Path | None) -> Dialect | None:
    """How a site speaks, where a file says so."""
    return None if file is None else read_dialect(file)


def sweep_templates(
    house: House, client: Environment, file: Path | None, names: Sequence[str] | None
) -> tuple[Template, ...]:
    """The templates of a file, else those of the site's own tasks, of these names; a plan in free text made into steps.

    The model of the settings is asked once for each text. Raises ValidationError, UnknownTemplate, BadParameter,
    NoModel, ModelFailure, PlanRefused.
    """
    found = choose_templates(site_templates(client) if file is None else _FILE.validate_json(file.read_bytes()), names)
    if all(template.plan_steps or template.plan_text is None for template in found):
        return found
    with agent_model(house.settings) as model:
        return tuple(decompose(template, model, house.store, house.blobs) for template in found)


def choose_templates(found: Sequence[Template], names: Sequence[str] | None) -> tuple[Template, ...]:
    """The templates of the tasks that were asked for. Raises BadParameter for one that the site does not grade."""
    by_id = {template.template_id: template for template in found}
    for name in names or ():
        if name not in by_id:
            raise typer.BadParameter(f"the site grades no task {name!r}; expected one of {', '.join(sorted(by_id))}")
    return tuple(by_id[name] for name in names) if names else tuple(found)
