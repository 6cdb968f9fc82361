"""`make demo-slow`: demonstrations, a warm-up, training arms over several training seeds, and the real gate."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from api.cli.output import TerminalReporter
from benchmarks.log.server import own_server
from benchmarks.report import Target, at_least, at_most, between, report

from .arms import AFTER_SFT, CONTROL, CONTROLS, LONG_CONTROL, LOOP, Workshop, opened
from .effort import TASKS, Effort, quick
from .gated import judged
from .paired import Difference, paired
from .schedule import trained_and_held_out
from .stage import Outcomes, log_of, scene, success
from .training import Saved, foreign_runs, tell_lineage
from .warmed import Warmed, shown, warmed

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks" / "slow.md"
HEADINGS = ("arm", "before", "after", "difference, 95 % interval", "each training seed")
MINUTES = 30
WITH_DPO = PAGE.with_name("slow-dpo.md")
AGAINST = (
    ("dpo", CONTROL),
    ("grpo", CONTROL),
    (LOOP, LONG_CONTROL),
    (LOOP, "sft"),
    (LOOP, AFTER_SFT),
    (AFTER_SFT, "sft"),
    ("sft", CONTROL),
)
LEAST = 0.000_001
"""Smallest value that counts as above 0."""

FOLDER = Path(".flywheel/demo-slow")


def main(
    *,
    small: Annotated[bool, typer.Option("--quick", help="Use two training seeds, a third of the instances.")] = False,
    loop: Annotated[bool, typer.Option(help="Sample new runs for the loop's last stage.")] = True,
    dpo: Annotated[bool, typer.Option("--dpo", help="Add a DPO stage between the loop's SFT and GRPO.")] = False,
    write: Annotated[bool, typer.Option("--write", help="Also write the figures into the page.")] = False,
    folder: Annotated[Path, typer.Option(help="Folder of base models and checkpoints.")] = FOLDER,
) -> None:
    """Train from demonstrations to a promoted checkpoint, reusing results in the folder."""
    if write and (small or not loop):
        raise typer.BadParameter("--write needs a full run: omit --quick and --no-loop")
    began = time.monotonic()
    effort = replace(quick() if small else Effort(), dpo_in_loop=dpo)
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    with (
        scene(effort) as played,
        own_server() as server,
        log_of(server, "warm_up", folder) as demonstrated,
        log_of(server, "loop", folder) as house,
    ):
        for each in (demonstrated, house):
            played.admit(each)
        shown(played, demonstrated)
        start = warmed(played, demonstrated, folder)
        with opened(start) as host:
            workshop = Workshop(played, demonstrated, house, start, host, folder)
            before = workshop.held_out("before", None)
            saved, after = trained_and_held_out(workshop, loop=loop)
            best_arm, best = _best(saved, after)
            TerminalReporter().say(f"evaluating the best checkpoint at the gate: {best_arm} {best.digest[:12]}")
            verdict = judged(workshop, best)
        foreign = sum(foreign_runs(house, each) for name, each in workshop.datasets.items() if name != CONTROL)
        for made in (*(own[0] for arm, own in saved.items() if arm not in CONTROLS), best):
            tell_lineage(house, made)
    minutes = (time.monotonic() - began) / 60
    rows = _rows(effort, before, after)
    _tell(rows)
    known = {"warmed policy, success": start.success, "runs of others that were trained on": float(foreign)}
    told = (WITH_DPO if dpo else PAGE, _note(effort, rows, start)) if write else None
    _report(known, before, after, promoted=verdict.decision == "promote", minutes=minutes, told=told)


def _best(saved: Mapping[str, Sequence[Saved]], after: Mapping[str, Sequence[Outcomes]]) -> tuple[str, Saved]:
    """The checkpoint with the highest success, excluding controls."""
    ranked = [
        (success(outcomes), arm, made)
        for arm, found in after.items()
        if arm not in CONTROLS
        for outcomes, made in zip(found, saved[arm], strict=True)
    ]
    _, arm, made = max(ranked, key=lambda each: each[0])
    return arm, made


def _differences(before: Outcomes, after: Mapping[str, Sequence[Outcomes]]) -> dict[str, Difference]:
    """Differences of each arm to the initial policy, to the control with as many steps, and to its previous stages."""
    found = {f"{arm} - before": paired(before, outcomes) for arm, outcomes in after.items()}
    return found | {
        f"{arm} - {other}": paired(after[other], after[arm])
        for arm, other in AGAINST
        if arm in after and other in after
    }


def _rows(effort: Effort, before: Outcomes, after: Mapping[str, Sequence[Outcomes]]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for arm, outcomes in after.items():
        found = paired(before, outcomes)
        mean = sum(map(success, outcomes)) / len(outcomes)
        each = ", ".join(f"{seed}: {own:+.3f}" for seed, own in zip(effort.training_seeds, found.by_seed, strict=True))
        interval = f"{found.mean:+.3f} ({found.low:+.3f} to {found.high:+.3f})"
        rows.append((arm, f"{success(before):.3f}", f"{mean:.3f}", interval, each))
    return rows


def _tell(rows: Sequence[tuple[str, ...]]) -> None:
    grid = Table(title="held-out success, seeds that nothing was trained on", title_justify="left")
    for column in HEADINGS:
        grid.add_column(column)
    for row in rows:
        grid.add_row(*row)
    Console(width=140).print(grid)


def _note(effort: Effort, rows: Sequence[tuple[str, ...]], start: Warmed) -> str:
    """Text of the page above the figures, with the table of the arms."""
    held_out = len(effort.seeds.held_out) * len(TASKS)
    lines = [f"| {' | '.join(HEADINGS)} |", f"|{'---|' * len(HEADINGS)}"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    made = (
        f"{start.steps} steps of warm-up, {'kept from an earlier call' if start.is_kept else 'made in these minutes'}"
    )
    sizes = f"{held_out} held-out instances, {len(effort.training_seeds)} training seeds"
    first = f"{os.cpu_count()} cores; {sizes}; {made}."
    return "\n\n".join((first, "\n".join(lines)))


def _report(
    known: Mapping[str, float],
    before: Outcomes,
    after: Mapping[str, Sequence[Outcomes]],
    *,
    promoted: bool,
    minutes: float,
    told: tuple[Path, str] | None,
) -> None:
    differences = _differences(before, after)
    figures = {**known, "held out, before": success(before)}
    figures |= {f"held out, {arm}": sum(map(success, found)) / len(found) for arm, found in after.items()}
    figures |= {name: found.mean for name, found in differences.items()}
    figures |= {"promoted by the gate": float(promoted), "minutes": minutes}
    intervals = {name: (found.low, found.high) for name, found in differences.items()}
    whole = LOOP if LOOP in after else "grpo"
    targets: dict[str, float | Target] = {
        "warmed policy, success": between(0.35, 0.5),
        "runs of others that were trained on": at_most(0),
        "promoted by the gate": at_least(1),
        "minutes": at_most(MINUTES),
    }
    lowest = f"{whole} - before, low end of the interval"
    figures[lowest] = differences[f"{whole} - before"].low
    page, note = told or (None, "")
    report("demo-slow", figures, targets | {lowest: at_least(LEAST)}, intervals=intervals, page=page, note=note)


if __name__ == "__main__":
    typer.run(main)
