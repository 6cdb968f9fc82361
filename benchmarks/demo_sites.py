"""`make demo-sites`: the fast loop on small sites that a grammar of obstacles draws, before and after, on sealed seeds.

Each site learns in a project of its own: a sweep over training seeds, whose failures recovery looks over, then trials
of what it proposed, by the code of `flywheel run`. What was promoted is played on seeds that nothing learned from.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

from agents.envs.clients.client import EnvClient
from agents.learning.memory import build_memory_artifact, content_reader, forget_everything
from agents.rollouts.play import PLAN
from agents.rollouts.sweep import SeedSweep, plan_sweep
from api.course import BASE, Course
from api.house import House
from api.settings import Settings
from api.sweeps.candidates import trial_pool
from api.sweeps.jobs import jobs_of, play_jobs
from api.sweeps.plan import first_facts, plan
from eventlog.blobs import Blob, PostgresBlobs
from eventlog.events import Artifact, PairedRule, SweepPlanned, Template, Trials
from eventlog.postgres import PostgresStore
from eventlog.store import Append
from gate.intervals import wilson
from projections.engine.projector import Projector
from projections.memories import candidacies
from projections.rewards import REWARDS
from tests.desks.grammar import APART, CONTROL, HELD_OUT, TRIED, Combination, DeskKind, draw_desk
from tests.desks.serving import serve_desk
from tests.desks.site import template_of
from tests.desks.words import WORDS

from .demo_fast.silent import Silent
from .log.server import Server, own_server
from .report import Target, at_least, at_most, report
from .resuming import play_or_go_on

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks" / "sites.md"
COURSE = Course(max_parallel=4)
ROUNDS = 3
EVERY_GROUP = Trials(treated_micro=1_000_000, withheld_micro=0)
FIRST_SEALED, MICRO = 10_000, 1_000_000
HEADINGS = ("obstacles", "drawn", "site", "before", "after", "cured by")


@dataclass(frozen=True, slots=True)
class Sizes:
    """Numbers of seeds: found in the first sweep, groups of trials for each candidate, and sealed seeds played."""

    found: int = 6
    groups: int = 20
    sealed: int = 60


QUICK = Sizes(found=3, sealed=8)


@dataclass(frozen=True, slots=True)
class Measured:
    """One site: runs passed before and after learning, of `sealed` each, and what was promoted, by kind."""

    desk: DeskKind
    drawn: str
    before: int
    after: int
    sealed: int
    cured_by: tuple[str, ...]


def main(
    *,
    quick: Annotated[bool, typer.Option("--quick", help="One site of each sort, few seeds.")] = False,
    write: Annotated[bool, typer.Option("--write", help=f"Also write docs/benchmarks/{PAGE.name}.")] = False,
    seed: Annotated[int, typer.Option(help="Seed that draws the sites.")] = 0,
) -> None:
    """Let each drawn site learn, and print its success before and after."""
    began, sizes = time.perf_counter(), QUICK if quick else Sizes()
    cases = drawn_cases(seed, is_short=quick)
    with own_server() as server:
        found = [measure(server, number, *case, sizes) for number, case in enumerate(track(cases, "learning"))]
    rows = [cells(each) for each in found]
    grid = Table(*HEADINGS, title="demo-sites", title_justify="left")
    for row in rows:
        grid.add_row(*row)
    Console(width=130).print(grid)
    figures, targets, spans = figures_of(found)
    figures["minutes"] = (time.perf_counter() - began) / 60
    lines = [f"| {' | '.join(HEADINGS)} |", f"|{'---|' * len(HEADINGS)}", *(f"| {' | '.join(row)} |" for row in rows)]
    page = PAGE if write else None
    report("demo-sites", figures, targets, intervals=spans, page=page, note="\n".join(lines))


def drawn_cases(seed: int, *, is_short: bool) -> list[tuple[DeskKind, str]]:
    """Each combination on a site that the seed draws, or one of each sort."""
    sorts: dict[str, tuple[Combination, ...]] = {
        "tried": TRIED,
        "held out": HELD_OUT,
        "two places": APART,
        "control": (CONTROL,),
    }
    return [
        (draw_desk(1_000 * seed + number, WORDS, [each]), sort)
        for sort, combinations in sorts.items()
        for number, each in enumerate(combinations[:1] if is_short else combinations)
    ]


def measure(server: Server, number: int, desk: DeskKind, drawn: str, sizes: Sizes) -> Measured:
    """Learn on one site in a new project, and play sealed seeds with an empty memory and with what was promoted."""
    project = f"desk_{number}"
    server.project(project)
    engine = server.engine(project)
    try:
        store = PostgresStore(engine)
        house = House(Settings(), engine, store, PostgresBlobs(engine), Projector(engine, store=store))
        first_facts(house)
        with serve_desk(desk) as site, EnvClient(site.admin_url, site.admin_token) as client:
            learn(house, client, desk, sizes)
            before = play_sealed(house, client, desk, "before", sizes, forget_everything(BASE))
            after = play_sealed(house, client, desk, "after", sizes, build_memory_artifact(house.views(), BASE))
        states = candidacies(house.views()).values()
        kinds = sorted({getattr(each, "kind", "rewrite") for each in states if each.status == "promoted"})
        return Measured(desk, drawn, before, after, sizes.sealed, tuple(kinds))
    finally:
        engine.dispose()


def learn(house: House, client: EnvClient, desk: DeskKind, sizes: Sizes, task: Template | None = None) -> None:
    """A sweep that proposes candidates, then rounds of trials until one is promoted or none is left.

    The task is the site's unless another is given. What an earlier call played is not played again.
    """
    site, task = desk.words.site, task or template_of(desk)

    def play(name: str, seeds: range, siblings: int, trials: Trials | None = None) -> None:
        def planned() -> SweepPlanned:
            drawn = SeedSweep(name, (task,), seeds, siblings)
            return plan(house, house.views(), site, drawn, rng_seed=1, trials=trials, learns=trials is None)

        play_or_go_on(house, client, name, planned, COURSE, Silent(), PLAN)

    play(f"{site}-found", range(1, sizes.found + 1), 2)
    for number in range(ROUNDS):
        pool = trial_pool(house.views(), content_reader(house.blobs)).among((task,), site)
        if pool.promoted or not pool.candidates:
            return
        first = 100 + 1_000 * number
        seeds = range(first, first + sizes.groups * min(len(pool.candidates), 4))
        play(f"{site}-tried{number}", seeds, 1 + PairedRule().controls, EVERY_GROUP)


def play_sealed(
    house: House, client: EnvClient, desk: DeskKind, name: str, sizes: Sizes, memory: tuple[Artifact, Blob]
) -> int:
    """Number of sealed runs that pass with a memory."""
    site, (artifact, blob) = desk.words.site, memory
    seeds = range(FIRST_SEALED, FIRST_SEALED + sizes.sealed)
    sweep = plan_sweep(
        SeedSweep(f"{site}-{name}", (template_of(desk),), seeds), site, artifact, rng_seed=0, learns=False
    )
    house.blobs.put([blob])
    house.store.append([Append(f"sweep/{sweep.sweep}", (sweep,), "demo", expect=0, key=f"sweep:{sweep.sweep}")])
    play_jobs(house, client, sweep.sweep, jobs_of(house, house.views(), sweep, sweep.specs), COURSE, Silent())
    return sum(each.passed for each in house.views().find(REWARDS, f"{sweep.sweep}__").values())


def cells(each: Measured) -> tuple[str, ...]:
    """A row of the table."""
    shown = (share(passed, each.sealed) for passed in (each.before, each.after))
    cured = ", ".join(each.cured_by) or "nothing"
    return (" and ".join(each.desk.obstacles), each.drawn, each.desk.words.site, *shown, cured)


def share(passed: int, runs: int) -> str:
    """A rate with its 95 % interval."""
    low, high = interval(passed, runs)
    return f"{passed / runs:.2f} ({low:.2f} to {high:.2f})"


def interval(passed: int, runs: int) -> tuple[float, float]:
    """The 95 % interval of a rate."""
    found = wilson(passed, runs)
    return found.low / MICRO, found.high / MICRO


def figures_of(found: list[Measured]) -> tuple[dict[str, float], dict[str, Target], dict[str, tuple[float, float]]]:
    """Success over each sort of sites, with targets and intervals."""
    figures, spans = dict[str, float](), dict[str, tuple[float, float]]()
    for sort in ("tried", "held out", "two places", "control"):
        of_sort = [each for each in found if each.drawn == sort]
        runs = sum(each.sealed for each in of_sort)
        for name, passed in (("before", sum(e.before for e in of_sort)), ("after", sum(e.after for e in of_sort))):
            figures[f"{sort}, {name}"], spans[f"{sort}, {name}"] = passed / runs, interval(passed, runs)
    return (
        figures,
        {"tried, after": at_least(0.95), "held out, after": at_least(0.95), "control, after": at_most(0.3)},
        spans,
    )


if __name__ == "__main__":
    typer.run(main)
