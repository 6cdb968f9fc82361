"""`make demo-real`: SmolLM2 learns sums from its own runs, against a control with as many runs and tokens."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.table import Table

from agents.models.local.host import Host
from api.cli.output import TerminalReporter
from api.training.bases import add_base, find_source
from api.training.weights import base_of
from benchmarks.report import Target, at_least, report
from projections.runs import RUNS

from .arms import ARMS, CONTROL, LOOP, Arm, Workshop
from .differences import Difference, two_way
from .effort import BASE, OTHERS, PRIMARY, TRAINED, Effort, quick
from .judged import ask_champion, judge_at_gate
from .questions import ASKED
from .stage import Outcomes, Paused, constrained_base, open_stage, success

PAGE: Final = Path(__file__).parents[2] / "docs" / "benchmarks" / "real.md"
FOLDER: Final = Path(".flywheel/demo-real")
PLAIN: Final = "base"
SCHEMA: Final = "base under a schema"
_PARALLEL: Final = 8
_PAUSED: Final = 75
_COLUMNS: Final = {TRAINED: "held-out questions", ASKED: ASKED} | {
    task: task.removeprefix("reasoning-gym.") for task in OTHERS
}
_LEAST: Final = 0.000_001

Held = Mapping[str, Sequence[Mapping[str, Outcomes]]]
"""Held-out outcomes by arm, training seed (one for an arm that is not trained) and task."""


def main(
    *,
    small: Annotated[bool, typer.Option("--quick", help="Try every part at a size that teaches nothing.")] = False,
    minutes: Annotated[float, typer.Option(min=1, help="Begin nothing new after so long; call again to go on.")] = 90,
    write: Annotated[bool, typer.Option("--write", help="Also write the figures into the page.")] = False,
    folder: Annotated[Path, typer.Option(help="Folder of the log, the base and the checkpoints.")] = FOLDER,
) -> None:
    """Train a real model on its own runs, at several training seeds, and judge it. A call goes on from the last."""
    if write and small:
        raise typer.BadParameter("--write needs a full run: omit --quick")
    began, effort = time.monotonic(), quick() if small else Effort()
    place = (folder / "quick" if small else folder).resolve()
    place.mkdir(parents=True, exist_ok=True)
    try:
        with open_stage(place, effort, began + 60 * minutes) as stage:
            base = add_base(stage.house, find_source(BASE, None, None)).base
            with (
                closing(Host(base_of(stage.house, base, None).path)) as host,
                constrained_base(_PARALLEL) as constrained,
            ):
                _run(Workshop(stage, host, constrained), began, write=write)
    except Paused:
        TerminalReporter().say(f"{minutes:g} minutes are over; the same command goes on from here")
        raise typer.Exit(_PAUSED) from None
    TerminalReporter().say(f"this call took {(time.monotonic() - began) / 60:.1f} minutes")


def _run(workshop: Workshop, began: float, *, write: bool) -> None:
    held: dict[str, list[Mapping[str, Outcomes]]] = {
        PLAIN: [workshop.held_out("base")],
        SCHEMA: [workshop.held_out("schema", model=workshop.constrained)],
    }
    held |= {arm: [] for arm in ARMS}
    arms: list[Arm] = []
    for seed in workshop.stage.effort.training_seeds:
        start = workshop.sft(seed)
        loop = workshop.loop(start)
        for arm in (start, workshop.control(start, loop), loop):
            held[arm.name].append(workshop.held_out(f"{arm.name}-{seed}", arm.state.checkpoint))
            arms.append(arm)
    _tell(held)
    best = max(
        arms,
        key=lambda arm: success(held[arm.name][workshop.stage.effort.training_seeds.index(arm.training_seed)][TRAINED]),
    )
    TerminalReporter().say(f"at the gate: {best.name}, training seed {best.training_seed}")
    promoted = judge_at_gate(workshop, best).decision == "promote"
    served = ask_champion(workshop)
    told = {
        "promoted by the gate": float(promoted),
        "the champion, asked through the proxy": served,
        "runs that are missing": float(_missing(workshop)),
        "minutes of the last call": (time.monotonic() - began) / 60,
    }
    _report(workshop.stage.effort, held, arms, told, write=write)


def _missing(workshop: Workshop) -> int:
    """Runs of all sweeps that the platform could not play."""
    return sum(state.status == "missing" for state in workshop.stage.house.views().find(RUNS).values())


def _over_seeds(held: Held, arm: str, task: str, many: int) -> list[Outcomes]:
    """Outcomes of an arm on a task, one for each training seed."""
    found = [each[task] for each in held[arm]]
    return found * many if len(found) == 1 else found


def _differences(held: Held, seeds: int) -> dict[str, Difference]:
    """Differences on the trained task: of each arm to the base, of the loop to the others, and on the other tasks."""
    pairs = [(LOOP, CONTROL), (LOOP, "sft"), *((arm, PLAIN) for arm in ARMS), (LOOP, SCHEMA)]
    found = {
        f"{one} - {other}": two_way(_over_seeds(held, other, TRAINED, seeds), _over_seeds(held, one, TRAINED, seeds))
        for one, other in pairs
    }
    return found | {
        f"{LOOP} - {CONTROL}, {_COLUMNS[task]}": two_way(
            _over_seeds(held, CONTROL, task, seeds), _over_seeds(held, LOOP, task, seeds)
        )
        for task in OTHERS
    }


def _mean(held: Held, arm: str, task: str) -> float:
    return sum(success(each[task]) for each in held[arm]) / len(held[arm])


def _rows(held: Held) -> list[tuple[str, ...]]:
    return [(arm, *(f"{_mean(held, arm, task):.3f}" for task in _COLUMNS)) for arm in held]


def _tell(held: Held) -> None:
    grid = Table(title="success on held-out instances, mean of the training seeds", title_justify="left")
    for column in ("arm", *_COLUMNS.values()):
        grid.add_column(column, overflow="fold")
    for row in _rows(held):
        grid.add_row(*row)
    Console(width=140).print(grid)


def _note(effort: Effort, held: Held, arms: Sequence[Arm], found: Mapping[str, Difference]) -> str:
    """Text of the page above the figures: sizes, success by task, and what each arm took."""
    columns = ("arm", *_COLUMNS.values())
    table = [
        f"| {' | '.join(columns)} |",
        f"|{'---|' * len(columns)}",
        *(f"| {' | '.join(row)} |" for row in _rows(held)),
    ]
    spent = ["| arm | training seed | runs | steps | tokens trained |", "|---|---|---|---|---|"]
    spent += [
        f"| {arm.name} | {arm.training_seed} | {arm.spent.runs:,} | {arm.spent.steps} | {arm.spent.tokens:,} |"
        for arm in arms
    ]
    each = ", ".join(
        f"{seed}: {own:+.3f}" for seed, own in zip(effort.training_seeds, found[PRIMARY].by_seed, strict=True)
    )
    sizes = (
        f"{effort.held_out} held-out instances of the trained task, {effort.held_out_others} of each other column, "
        f"{len(effort.training_seeds)} training seeds. The comparison named beforehand is {PRIMARY}; "
        f"by training seed: {each}."
    )
    return "\n\n".join((sizes, "\n".join(table), "\n".join(spent)))


def _report(effort: Effort, held: Held, arms: Sequence[Arm], told: Mapping[str, float], *, write: bool) -> None:
    found = _differences(held, len(effort.training_seeds))
    figures = {f"held out, {arm}": _mean(held, arm, TRAINED) for arm in held}
    figures |= {name: each.mean for name, each in found.items()}
    figures |= told
    lowest = f"{PRIMARY}, low end of the interval"
    figures[lowest] = found[PRIMARY].low
    targets: dict[str, float | Target] = {"promoted by the gate": at_least(1), lowest: at_least(_LEAST)}
    intervals = {name: (each.low, each.high) for name, each in found.items()}
    page, note = (PAGE, _note(effort, held, arms, found)) if write else (None, "")
    report("demo-real", figures, targets, intervals=intervals, page=page, note=note)


if __name__ == "__main__":
    typer.run(main)
