"""What a sweep is told on the command line, and what is meant by it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from pydantic import TypeAdapter

from agents.envs.environment import Environment
from agents.envs.foreign.dialect import Dialect, read_dialect
from agents.rollouts.decompose import decomposed
from eventlog.events import Template

from ..asking import agent_model
from ..executing import Way
from ..house import House
from ..sweeping import site_templates

_FILE = TypeAdapter(tuple[Template, ...])

Site = Annotated[str, typer.Argument(help="The site to play on.")]
Tasks = Annotated[list[str] | None, typer.Option("--task", help="Only this task; may be given again. Default: all.")]
Seeds = Annotated[
    str | None, typer.Option(metavar="A-B,C", help="Seeds, as ranges and numbers. Default: 12 that no sweep has seen.")
]
Siblings = Annotated[int, typer.Option(min=1, max=64, help="Runs of each instance: one group.")]
Temperatures = Annotated[
    list[float] | None,
    typer.Option("--temperature", min=0, max=2, help="What a model draws with; given again: sibling by sibling."),
]
Name = Annotated[str | None, typer.Option("--sweep", help="The sweep's name. Default: the site and a number.")]
RngSeed = Annotated[int, typer.Option(min=0, help="What is drawn, is drawn by this.")]
Learn = Annotated[
    bool, typer.Option("--learn/--no-learn", help="Let failures propose rewrites, and last siblings try candidates.")
]
TemplatesFile = Annotated[
    Path | None,
    typer.Option(
        "--templates", help="The tasks with their plans, in steps or free text: a list in JSON. Default: our own."
    ),
]
How = Annotated[Way, typer.Option("--executor", help="How: a plan over HTTP or in Chromium, or a model.")]
ModelName = Annotated[
    str | None, typer.Option("--model", help="With --executor policy: another model of that endpoint.")
]
ForGrpo = Annotated[bool, typer.Option("--for-grpo", help="Refuse an executor that gives no token ids with logprobs.")]
MaxParallel = Annotated[int, typer.Option(min=1, max=64, help="Runs side by side; 1 is sequential.")]
Timeout = Annotated[float | None, typer.Option(min=1, help="Seconds a run may take; then it is missing.")]
PlanOnly = Annotated[
    bool, typer.Option("--plan-only", help="Put its runs in the queue, and leave them to `flywheel worker`.")
]
Seek = Annotated[
    bool, typer.Option("--variance-seek", help="Add siblings to groups whose runs all ended alike, one at a time.")
]
MaxSiblings = Annotated[int, typer.Option(min=1, max=64, help="With --variance-seek: at most so many a group.")]
MaxCost = Annotated[
    float | None, typer.Option(min=0, help="With --variance-seek: stop when the sweep has cost so many dollars.")
]


def read_seeds(text: str) -> tuple[int, ...]:
    """Seeds of a text such as `0-11,40`. Raises BadParameter."""
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        try:
            found += range(int(first), int(last) + 1) if dash else [int(first)]
        except ValueError as problem:
            raise typer.BadParameter(f"{part!r} is no seed and no range; expected such as 0-11,40") from problem
    return tuple(found)


def spoken(file: Path | None) -> Dialect | None:
    """How a site speaks, where a file says so."""
    return None if file is None else read_dialect(file)


def templates_of(
    house: House, client: Environment, file: Path | None, names: Sequence[str] | None
) -> tuple[Template, ...]:
    """The templates of a file, else those of the site's own tasks, of these names; a plan in free text made into steps.

    The model of the settings is asked once for each text. Raises ValidationError, UnknownTemplate, BadParameter,
    NoModel, ModelFailure, PlanRefused.
    """
    found = chosen(site_templates(client) if file is None else _FILE.validate_json(file.read_bytes()), names)
    if all(template.plan_steps or template.plan_text is None for template in found):
        return found
    with agent_model(house.settings) as model:
        return tuple(decomposed(template, model, house.store, house.blobs) for template in found)


def chosen(found: Sequence[Template], names: Sequence[str] | None) -> tuple[Template, ...]:
    """The templates of the tasks that were asked for. Raises BadParameter for one that the site does not grade."""
    by_id = {template.template_id: template for template in found}
    for name in names or ():
        if name not in by_id:
            raise typer.BadParameter(f"the site grades no task {name!r}; expected one of {', '.join(sorted(by_id))}")
    return tuple(by_id[name] for name in names) if names else tuple(found)
