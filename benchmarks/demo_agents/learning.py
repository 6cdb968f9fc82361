"""One task and what plays it: learn lessons in words on training seeds, then play sealed seeds without and with them.

Every part of the demonstration is measured by this code. Its sweeps, trials and promotions are those of
`flywheel run --executor policy`; there is no gate.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Final

from pydantic import SecretStr

from agents.envs.environment import Environment
from agents.executors.executor import Executor
from agents.learning.advice import advice_lines, worth_telling
from agents.learning.memory import build_memory_artifact, content_reader, forget_everything
from agents.rollouts.sweep import SeedSweep, plan_sweep
from api.course import BASE, Course
from api.house import House
from api.queries.facts import require
from api.queries.runs import pending_specs
from api.reporter import Reporter
from api.settings import Settings
from api.sweeps.candidates import seeds_for_trials, siblings_for_trials, trial_pool
from api.sweeps.executors import audience_of, recorded_as
from api.sweeps.jobs import jobs_of, pieces_of, play_jobs
from api.sweeps.plan import is_planned, plan
from benchmarks.demo_fast.silent import Silent
from benchmarks.resuming import play_or_go_on, sweep_named
from eventlog.blobs import Blob
from eventlog.events import Artifact, PairedRule, PieceKind, SweepPlanned, Template, Trials
from eventlog.store import Append
from projections.candidacy import Candidacy
from projections.engine.projection import replay
from projections.memories import LOOSE, candidacies, piece_kind
from projections.rewards import REWARDS
from tests.model_server import Asked, model_server

ABLATIONS: Final[dict[str, frozenset[PieceKind]]] = {
    "every kind": frozenset({"hint", "exemplar", "recipe", "instruction"}),
    "looking alone": frozenset({"hint"}),
    "contrast alone": frozenset({"exemplar"}),
    "reflection alone": frozenset({"recipe"}),
    "instruction alone": frozenset({"instruction"}),
}
LEAST: Final = 1 + PairedRule().controls


def project_of(place: str, kinds: frozenset[PieceKind]) -> str:
    """Name of the project in which a place is learned by these kinds of lessons, at most 40 characters. Pure."""
    return "_".join((place.replace("-", "_"), *sorted(kinds)))[:40]


@dataclass(frozen=True, slots=True)
class Sizes:
    """Numbers of seeds: found in the first sweep, tried in each round of trials, sealed; and of rounds of trials.

    Rounds are small, because the allocator chooses by what the rounds before were worth.
    """

    found: int = 6
    tried: int = 8
    sealed: int = 60
    rounds: int = 9


@dataclass(frozen=True, slots=True)
class Case:
    """A task on a site: who plays it while it learns and who on sealed seeds, the first of which is `sealed_from`.

    `obstacle` says in the table what stands in the way. `is_control` is true where nothing cures it. `pool` are the
    sentences that a scripted model proposes in turn where lessons by reflection are learned. `weights` are those of a
    policy, drawn from at `temperatures` while it learns.
    """

    obstacle: str
    site: str
    task: Template
    environment: Environment
    learner: Executor
    knower: Executor
    pool: tuple[str, ...]
    sealed_from: int
    is_control: bool
    weights: str = BASE
    temperatures: tuple[int, ...] = ()
    course: Course = field(default_factory=lambda: Course(max_parallel=4))
    reporter: Reporter = field(default_factory=Silent)


@dataclass(frozen=True, slots=True)
class Measured:
    """One task and kinds of lessons: sealed runs passed before and after, and the lessons promoted, by kind.

    `runs` and `calls` are those of learning, `tried` the lessons that had a trial, `told` the bytes of advice at last.
    `ended` are the candidacies of these that were decided, `won` those of them that were promoted, also if that was
    taken back later.
    """

    obstacle: str
    site: str
    is_control: bool
    lessons: str
    before: int
    after: int
    sealed: int
    promoted: tuple[str, ...]
    runs: int
    calls: int
    tried: int
    told: int
    ended: int = 0
    won: int = 0


def measure(house: House, case: Case, lessons: str, kinds: frozenset[PieceKind], sizes: Sizes) -> Measured:
    """Learn a task by these kinds of lessons, and play sealed seeds told nothing and told what was promoted."""
    learn(house, case, kinds, sizes)
    prefix = f"run/{case.site}-learn"
    runs, calls = (_count(house, prefix, each) for each in ("RunStarted", "ModelCalled"))
    tried = {
        getattr(each.event, "piece", "")
        for each in house.store.read(types=["PieceTried"])
        if getattr(each.event, "run", "").startswith(prefix.removeprefix("run/"))
    }
    empty, learned = forget_everything(case.weights), build_memory_artifact(house.views(), case.weights, kinds=kinds)
    before = play_sealed(house, case, "before", sizes, empty)
    after = play_sealed(house, case, "after", sizes, learned)
    pieces, told_to = pieces_of(house, learned[0]), require(audience_of(case.knower))
    lines = advice_lines(worth_telling(case.task, case.site, pieces, told_to))
    held = candidacies(house.views())
    promoted = sorted(piece_kind(held[each]) for each in tried if held[each].status == "promoted")
    return Measured(
        case.obstacle,
        case.site,
        case.is_control,
        lessons,
        before,
        after,
        sizes.sealed,
        tuple(promoted),
        runs,
        calls,
        len(tried),
        sum(len(line.encode()) for line in lines),
        *decided_candidacies(house, kinds),
    )


def decided_candidacies(house: House, kinds: Iterable[PieceKind]) -> tuple[int, int]:
    """Candidacies of pieces of these kinds that trials decided, and how many of them ended in a promotion.

    Those of the whole project are counted. A piece that is brought back has another candidacy. One without a trial, and
    one that is not decided, is left out.
    """
    found = list[bool]()
    for kind in sorted(kinds):
        states: dict[str, list[Candidacy]] = {}
        for change in replay(LOOSE[kind], house.store.read(types=[*LOOSE[kind].reads])):
            states.setdefault(change.key, []).append(require(change.state))
        for own in states.values():
            ends = [each.status for each in own if each.treated.k]
            found += [after == "promoted" for before, after in pairwise(["candidate", *ends]) if is_end(before, after)]
    return len(found), sum(found)


def is_end(before: str, after: str) -> bool:
    """True if a candidacy was decided between two statuses of a piece that follow one another."""
    return before == "candidate" and after in {"promoted", "retired"}


def _count(house: House, prefix: str, kind: str) -> int:
    return sum(each.stream.startswith(prefix) for each in house.store.read(types=[kind]))


def learn(house: House, case: Case, kinds: frozenset[PieceKind], sizes: Sizes, named: str = "") -> None:
    """A sweep that proposes lessons, then rounds of trials, which propose more, until none is on trial.

    The sweeps' names begin with the site's, or with `named`. What an earlier call played is not played again.
    """
    site, course, first = case.site, replace(case.course, kinds=kinds), 1
    for number in range(1 + sizes.rounds):
        name = f"{named or site}-learn{number}"
        pool = trial_pool(house.views(), content_reader(house.blobs), kinds)
        fitting = pool.among((case.task,), site, audience_of(case.learner))
        if number and not fitting.candidates and not is_planned(house.store, name):
            return
        count = seeds_for_trials(fitting, LEAST, sizes.tried) if number else sizes.found
        drawn = SeedSweep(
            name, (case.task,), range(first, first + count), siblings_for_trials(fitting, LEAST), case.temperatures
        )
        planned = partial(_planned, house, case, drawn, course)
        sweep = play_or_go_on(house, case.environment, name, planned, course, case.reporter, case.learner)
        first = 1 + max(spec.env_seed for spec in sweep.specs)


def _planned(house: House, case: Case, drawn: SeedSweep, course: Course) -> SweepPlanned:
    return plan(
        house,
        house.views(),
        case.site,
        drawn,
        rng_seed=course.rng_seed,
        trials=Trials.current(),
        executor=case.learner,
        kinds=course.kinds,
        forgetting=course.forgetting,
        weights=case.weights,
    )


def play_sealed(house: House, case: Case, name: str, sizes: Sizes, memory: tuple[Artifact, Blob]) -> int:
    """Number of sealed runs that pass with a memory, played greedily and without trying anything."""
    sweep_name, (artifact, blob), executor = f"{case.site}-{name}", memory, case.knower
    sweep = sweep_named(house, sweep_name)
    if sweep is None:
        recorded, model = recorded_as(executor)
        seeds = range(case.sealed_from, case.sealed_from + sizes.sealed)
        drawn = SeedSweep(sweep_name, (case.task,), seeds)
        sweep = plan_sweep(drawn, case.site, artifact, rng_seed=0, learns=False, executor=recorded, model=model)
        house.blobs.put([blob])
        house.store.append([Append(f"sweep/{sweep_name}", (sweep,), "demo", expect=0, key=f"sweep:{sweep_name}")])
    views = house.views()
    jobs = jobs_of(house, views, sweep, pending_specs(views, sweep.specs, f"{sweep_name}__"))
    play_jobs(house, case.environment, sweep_name, jobs, case.course, case.reporter, executor)
    return sum(each.passed for each in house.views().find(REWARDS, f"{sweep_name}__").values())


@contextmanager
def reflecting(settings: Settings, pool: tuple[str, ...]) -> Iterator[Settings]:
    """Settings with a recovery model that proposes the sentences of a pool in turn."""
    turns = iter(range(1_000_000))

    def answer(asked: Asked) -> str:
        kind = "instruction" if "Its instruction: " in asked.text else "lesson"
        return json.dumps({kind: pool[next(turns) % len(pool)]})

    with model_server(answer) as server:
        named = {"recovery_model": "pool", "recovery_url": server.url, "recovery_key": SecretStr("none")}
        yield settings.model_copy(update=named)
