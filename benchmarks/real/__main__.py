"""`make demo-real`: SmolLM2 learns from its own runs, against a control with as many runs and tokens."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import closing
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from agents.models.local.host import Host
from api.cli.output import TerminalReporter
from api.training.bases import add_base, find_source
from api.training.weights import base_of
from projections.runs import RUNS

from .arms import ARMS, Arm, Workshop
from .effort import BASE, Effort, on_pages, quick, quick_on_pages
from .judged import ask_champion, judge_at_gate
from .pages import pages
from .questions import sums
from .recipe import measure_recipe, quick_recipe, recipe_effort
from .stage import Outcomes, Paused, constrained_base, open_stage, success
from .subject import Subject
from .tables import PLAIN, SCHEMA, report_part, tell

FOLDER: Final = Path(".flywheel/demo-real")
_PARALLEL: Final = 8
_PAUSED: Final = 75


class Part(StrEnum):
    """What is learned."""

    SUMS = "sums"
    PAGES = "pages"
    RECIPE = "recipe"


def main(
    *,
    parts: Annotated[list[Part], typer.Option("--part", help="Parts to measure.")] = list(Part),  # noqa: B006
    small: Annotated[bool, typer.Option("--quick", help="Try every part at a size that teaches nothing.")] = False,
    minutes: Annotated[float, typer.Option(min=1, help="Begin nothing new after so long; call again to go on.")] = 90,
    write: Annotated[bool, typer.Option("--write", help="Also write the parts' figures into the page.")] = False,
    folder: Annotated[Path, typer.Option(help="Folder of the logs, the base and the checkpoints.")] = FOLDER,
) -> None:
    """Train a real model on its own runs, at several training seeds, and judge it. A call goes on from the last."""
    if write and small:
        raise typer.BadParameter("--write needs a full run: omit --quick")
    began = time.monotonic()
    try:
        for part in dict.fromkeys(parts):
            _measure(part, folder / "quick" if small else folder, began + 60 * minutes, small=small, write=write)
    except Paused:
        TerminalReporter().say(f"{minutes:g} minutes are over; the same command goes on from here")
        raise typer.Exit(_PAUSED) from None
    TerminalReporter().say(f"this call took {(time.monotonic() - began) / 60:.1f} minutes")


def _measure(part: Part, folder: Path, ends_at: float, *, small: bool, write: bool) -> None:
    """Measure a part on a log of its own: the folder itself has the sums'. Raises Paused."""
    began = time.monotonic()
    if part is Part.RECIPE:
        folder.mkdir(parents=True, exist_ok=True)
        measure_recipe(folder.resolve(), quick_recipe() if small else recipe_effort(), write=write)
        return
    if part is Part.SUMS:
        subject, place = sums(quick() if small else Effort()), folder.resolve()
    else:
        subject, place = pages(quick_on_pages() if small else on_pages()), folder.resolve() / part.value
    place.mkdir(parents=True, exist_ok=True)
    with open_stage(place, subject, ends_at) as stage:
        base = add_base(stage.house, find_source(BASE, None, None)).base
        with (
            closing(Host(base_of(stage.house, base, None).path)) as host,
            constrained_base(_PARALLEL) as constrained,
        ):
            _run(Workshop(stage, host, constrained), began, is_judged=part is Part.SUMS, write=write)


def _run(workshop: Workshop, began: float, *, is_judged: bool, write: bool) -> None:
    """Play and train every arm, or what is left of it, and tell what came of it. Raises Paused."""
    subject = workshop.stage.subject
    held: dict[str, list[Mapping[str, Outcomes]]] = {
        PLAIN: [workshop.held_out("base")],
        SCHEMA: [workshop.held_out("schema", model=workshop.constrained)],
    }
    held |= {arm: [] for arm in ARMS}
    arms: list[Arm] = []
    for seed in subject.effort.training_seeds:
        start = workshop.sft(seed)
        loop = workshop.loop(seed, start.state)
        for arm in (start, workshop.control(start, loop), loop):
            held[arm.name].append(workshop.held_out(f"{arm.name}-{seed}", arm.state.checkpoint))
            arms.append(arm)
    tell(subject, held)
    judged = _verdict_and_answers(workshop, _best(subject, held, arms)) if is_judged else {}
    told = {
        **judged,
        "runs that are missing": float(_missing(workshop)),
        "minutes of the last call": (time.monotonic() - began) / 60,
    }
    report_part(subject, held, arms, told, write=write, is_judged=is_judged)


def _best(subject: Subject, held: Mapping[str, list[Mapping[str, Outcomes]]], arms: list[Arm]) -> Arm:
    """The arm and training seed with the most held-out instances right."""
    order = subject.effort.training_seeds
    return max(arms, key=lambda arm: success(held[arm.name][order.index(arm.training_seed)][subject.compared]))


def _verdict_and_answers(workshop: Workshop, best: Arm) -> dict[str, float]:
    """The verdict on a checkpoint, and what it answers right behind the proxy. Raises Paused."""
    TerminalReporter().say(f"at the gate: {best.name}, training seed {best.training_seed}")
    promoted = judge_at_gate(workshop, best).decision == "promote"
    return {
        "promoted by the gate": float(promoted),
        "the champion, asked through the proxy": ask_champion(workshop),
    }


def _missing(workshop: Workshop) -> int:
    """Runs of all sweeps that the platform could not play."""
    return sum(state.status == "missing" for state in workshop.stage.house.views().find(RUNS).values())


if __name__ == "__main__":
    typer.run(main)
