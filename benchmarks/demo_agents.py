"""`make demo-agents`: lessons in words for a rule agent that only follows what it is told, on small generated sites.

No model is called: the agent's rules never change, so what it gets better by is memory alone. Each site learns in a
project of its own by the code of `flywheel run --executor policy`: sweeps over training seeds, lessons by looking, by
contrast and by reflection, trials, and what was promoted is told on seeds that nothing learned from.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import typer
from pydantic import SecretStr
from rich.console import Console
from rich.progress import track
from rich.table import Table

from agents.envs.clients.client import EnvClient
from agents.executors.policy import PolicyExecutor
from agents.learning.advice import BUDGET, advice_lines, worth_telling
from agents.learning.memory import build_memory_artifact, content_reader, forget_everything
from agents.models.scripted import Scripted
from agents.rollouts.sweep import SeedSweep, plan_sweep
from api.course import BASE, Course
from api.house import House
from api.settings import Settings
from api.sweeps.candidates import seeds_for_trials, siblings_for_trials, trial_pool
from api.sweeps.executors import audience_of
from api.sweeps.jobs import jobs_of, pieces_of, play_jobs
from api.sweeps.plan import first_facts, plan
from api.sweeps.play import play_sweep
from eventlog.blobs import Blob, PostgresBlobs
from eventlog.events import Artifact, PairedRule, PieceKind, Trials
from eventlog.postgres import PostgresStore
from eventlog.store import Append
from projections.engine.projector import Projector
from projections.memories import candidacies
from projections.rewards import REWARDS
from tests.desks.grammar import CONTROL, Combination, DeskKind, draw_desk
from tests.desks.serving import serve_desk
from tests.desks.site import template_of
from tests.desks.words import WORDS
from tests.followers import Follower
from tests.model_server import Asked, model_server

from .demo_fast.silent import Silent
from .demo_sites import FIRST_SEALED, interval, share
from .log.server import Server, own_server
from .report import at_least, at_most, report, section

PAGE: Final = Path(__file__).parents[1] / "docs" / "benchmarks" / "agents.md"
EXPLORES: Final = 0.35
"""Chance that the agent tries a control that it sees, where a step sends or failed: siblings then end differently."""

CASES: Final[tuple[Combination, ...]] = (
    ("gate page",),
    ("renamed control",),
    ("missing prerequisite",),
    ("extra confirmation",),
    CONTROL,
)
ABLATIONS: Final[dict[str, frozenset[PieceKind]]] = {
    "every kind": frozenset({"hint", "exemplar", "recipe", "instruction"}),
    "looking alone": frozenset({"hint"}),
    "contrast alone": frozenset({"exemplar"}),
    "reflection alone": frozenset({"recipe"}),
    "instruction alone": frozenset({"instruction"}),
}
HEADINGS: Final = ("obstacles", "site", "lessons", "before", "after", "tried", "promoted", "runs", "calls", "told")


@dataclass(frozen=True, slots=True)
class Sizes:
    """Numbers of seeds: found in the first sweep, tried in each round of trials, sealed; and of rounds of trials.

    Rounds are small, because the allocator chooses by what the rounds before were worth.
    """

    found: int = 6
    tried: int = 8
    sealed: int = 60
    rounds: int = 9


QUICK: Final = Sizes(found=4, sealed=16, rounds=4)


@dataclass(frozen=True, slots=True)
class Measured:
    """One site and kinds of lessons: sealed runs passed before and after, and the lessons promoted, by kind.

    `runs` and `calls` are those of learning, `tried` the lessons that had a trial, `told` the bytes of advice at last.
    """

    desk: DeskKind
    lessons: str
    before: int
    after: int
    sealed: int
    promoted: tuple[str, ...]
    runs: int
    calls: int
    tried: int
    told: int


def main(
    *,
    quick: Annotated[bool, typer.Option("--quick", help="One site and the control, few seeds.")] = False,
    write: Annotated[bool, typer.Option("--write", help=f"Also write docs/benchmarks/{PAGE.name}.")] = False,
    seed: Annotated[int, typer.Option(help="Seed that draws the sites.")] = 0,
) -> None:
    """Let the agent learn on each drawn site, by each kind of lesson, and print its success before and after."""
    began, sizes = time.perf_counter(), QUICK if quick else Sizes()
    cases = [case for case in CASES if not quick or case in {CASES[0], CONTROL}]
    desks = [draw_desk(1_000 * seed + number, WORDS, [each]) for number, each in enumerate(cases)]
    todo = [(desk, lessons) for desk in desks for lessons in ABLATIONS]
    with own_server() as server:
        found = [measure(server, number, *each, sizes) for number, each in enumerate(track(todo, "learning"))]
    rows = [cells(each) for each in found]
    grid = Table(*HEADINGS, title=f"demo-agents: at most {BUDGET} bytes told", title_justify="left")
    for row in rows:
        grid.add_row(*row)
    Console(width=160).print(grid)
    figures, spans = figures_of(found)
    figures["minutes"] = (time.perf_counter() - began) / 60
    if write:
        lines = [f"| {' | '.join(HEADINGS)} |", f"|{'---|' * len(HEADINGS)}", *(f"| {' | '.join(r)} |" for r in rows)]
        section(PAGE, "\n".join(lines))
    figures |= {"runs": float(sum(e.runs for e in found)), "calls": float(sum(e.calls for e in found))}
    figures["most bytes told"] = float(max(each.told for each in found))
    targets = {
        "every kind, after": at_least(0.9),
        "control, promoted": at_most(0.015),
        "most bytes told": at_most(BUDGET),
    }
    report("demo-agents", figures, targets, intervals=spans)


def measure(server: Server, number: int, desk: DeskKind, lessons: str, sizes: Sizes) -> Measured:
    """Learn on one site in a new project, and play sealed seeds told nothing and told what was promoted."""
    project = f"agents_{number}"
    server.project(project)
    engine = server.engine(project)
    try:
        store = PostgresStore(engine)
        with (
            reflector(desk) as settings,
            serve_desk(desk) as site,
            EnvClient(site.admin_url, site.admin_token) as client,
        ):
            house = House(settings, engine, store, PostgresBlobs(engine), Projector(engine, store=store))
            first_facts(house)
            course = Course(max_parallel=4, kinds=ABLATIONS[lessons])
            learn(house, client, desk, course, sizes)
            runs, calls = (sum(1 for _ in store.read(types=[each])) for each in ("RunStarted", "ModelCalled"))
            empty, learned = forget_everything(BASE), build_memory_artifact(house.views(), BASE, kinds=course.kinds)
            before = play_sealed(house, client, desk, "before", sizes, empty)
            after = play_sealed(house, client, desk, "after", sizes, learned)
            lines = advice_lines(worth_telling(template_of(desk), desk.words.site, pieces_of(house, learned[0])))
        states = candidacies(house.views()).values()
        promoted = sorted(getattr(each, "kind", "rewrite") for each in states if each.status == "promoted")
        tried = len({getattr(each.event, "piece", "") for each in store.read(types=["PieceTried"])})
        told = sum(len(line.encode()) for line in lines)
        return Measured(desk, lessons, before, after, sizes.sealed, tuple(promoted), runs, calls, tried, told)
    finally:
        engine.dispose()


def agent(desk: DeskKind, explores: float = EXPLORES) -> PolicyExecutor:
    """The rule agent of a site."""
    task = template_of(desk)
    return PolicyExecutor(Scripted(Follower(task.plan_steps, task.instruction, explores)))


def learn(house: House, client: EnvClient, desk: DeskKind, course: Course, sizes: Sizes) -> None:
    """A sweep that proposes lessons, then rounds of trials, which propose more, until none is on trial."""
    site, task, executor = desk.words.site, template_of(desk), agent(desk)
    least, first = 1 + PairedRule().controls, 1
    for number in range(1 + sizes.rounds):
        pool = trial_pool(house.views(), content_reader(house.blobs), course.kinds)
        fitting = pool.among((task,), site, audience_of(executor))
        siblings = siblings_for_trials(fitting, least)
        count = seeds_for_trials(fitting, least, sizes.tried) if number else sizes.found
        seeds = range(first, first + count)
        first = seeds.stop
        sweep = plan(
            house,
            house.views(),
            site,
            SeedSweep(f"{site}-{number}", (task,), seeds, siblings),
            rng_seed=course.rng_seed,
            trials=Trials.current(),
            executor=executor,
            kinds=course.kinds,
            forgetting=course.forgetting,
        )
        play_sweep(house, client, sweep, course, Silent(), executor)
        if not any(state.is_on_trial for state in candidacies(house.views()).values()):
            return


def play_sealed(
    house: House, client: EnvClient, desk: DeskKind, name: str, sizes: Sizes, memory: tuple[Artifact, Blob]
) -> int:
    """Number of sealed runs that pass with a memory. The agent tries nothing here: it does what it knows."""
    site, (artifact, blob), executor = desk.words.site, memory, agent(desk, 0.0)
    seeds = range(FIRST_SEALED, FIRST_SEALED + sizes.sealed)
    drawn = SeedSweep(f"{site}-{name}", (template_of(desk),), seeds)
    sweep = plan_sweep(
        drawn, site, artifact, rng_seed=0, learns=False, executor=executor.name, model=executor.model.name
    )
    house.blobs.put([blob])
    house.store.append([Append(f"sweep/{sweep.sweep}", (sweep,), "demo", expect=0, key=f"sweep:{sweep.sweep}")])
    jobs, course = jobs_of(house, house.views(), sweep, sweep.specs), Course(max_parallel=4)
    play_jobs(house, client, sweep.sweep, jobs, course, Silent(), executor)
    return sum(each.passed for each in house.views().find(REWARDS, f"{sweep.sweep}__").values())


@contextmanager
def reflector(desk: DeskKind) -> Iterator[Settings]:
    """Settings with a recovery model that proposes lessons of a fixed pool in turn, most of which do nothing."""
    words, pool = desk.words, iter(range(1_000))
    send = f"before you press the button '{words.send}': "
    lessons = (
        "Open /news, then follow the link 'News'.",
        f"{send}choose 'checked' at '{words.prerequisite}'.",
        f"Press the button '{words.renamed}', not: press the button '{words.send}'.",
        f"After you press the button '{words.send}': press the button '{words.confirm[1]}'.",
        (
            f"Before you write 'Alex Morgan' into '{words.who}': choose 'checked' at '{words.gate[0]}', then press the "
            f"button '{words.gate[1]}'."
        ),
    )

    def answer(asked: Asked) -> str:
        kind = "instruction" if "Its instruction: " in asked.text else "lesson"
        return json.dumps({kind: lessons[next(pool) % len(lessons)]})

    with model_server(answer) as server:
        named = {"recovery_model": "pool", "recovery_url": server.url, "recovery_key": SecretStr("none")}
        yield Settings().model_copy(update=named)


def cells(each: Measured) -> tuple[str, ...]:
    """A row of the table."""
    shown = (share(passed, each.sealed) for passed in (each.before, each.after))
    promoted = ", ".join(each.promoted) or "nothing"
    counts = (f"{each.runs:,}", f"{each.calls:,}", f"{each.told} B")
    name = " and ".join(each.desk.obstacles)
    return (name, each.desk.words.site, each.lessons, *shown, str(each.tried), promoted, *counts)


def figures_of(found: list[Measured]) -> tuple[dict[str, float], dict[str, tuple[float, float]]]:
    """Success by kinds of lessons over the sites that can be cured, and on the control, with intervals."""
    figures, spans = dict[str, float](), dict[str, tuple[float, float]]()
    for lessons in ABLATIONS:
        own = [each for each in found if each.lessons == lessons and each.desk.obstacles != CONTROL]
        runs = sum(each.sealed for each in own)
        for name, passed in (("before", sum(e.before for e in own)), ("after", sum(e.after for e in own))):
            figures[f"{lessons}, {name}"], spans[f"{lessons}, {name}"] = passed / runs, interval(passed, runs)
    control = [each for each in found if each.desk.obstacles == CONTROL]
    promoted, tried = (sum(each) for each in zip(*((len(e.promoted), e.tried) for e in control), strict=True))
    figures["control, tried"] = float(tried)
    figures["control, promoted"], spans["control, promoted"] = (
        promoted / max(1, tried),
        interval(promoted, max(1, tried)),
    )
    figures["control, after"] = sum(each.after for each in control) / sum(each.sealed for each in control)
    return figures, spans


if __name__ == "__main__":
    typer.run(main)
