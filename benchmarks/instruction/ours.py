"""The fast loop as the search: sweeps, one proposal a round, trials beside siblings, promotion by the paired rule."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from fractions import Fraction
from itertools import count
from typing import Final

from pydantic import SecretStr

from agents.envs.clients.client import EnvClient
from agents.learning.guidance import instruction_in_force
from agents.learning.memory import build_memory_artifact, content_reader, load_piece
from agents.learning.occasions import OccasionPiece
from agents.rollouts.sweep import SeedSweep
from api.course import BASE, Course
from api.house import House
from api.settings import Settings
from api.sweeps.candidates import siblings_for_one, siblings_for_trials, trial_pool
from api.sweeps.executors import audience_of
from api.sweeps.jobs import pieces_of
from api.sweeps.plan import first_facts, plan
from api.sweeps.play import play_sweep
from benchmarks.demo_fast.silent import Silent
from benchmarks.log.server import Server
from eventlog.blobs import PostgresBlobs
from eventlog.events import ModelCalled, PairedRule, RunStarted, Trials
from eventlog.postgres import PostgresStore
from eventlog.store import EventStore
from projections.engine.projector import Projector
from projections.memories import LOOSE
from tests.desks.grammar import DeskKind
from tests.desks.site import template_of
from tests.model_server import Asked, model_server

from .local import Found, reflecting
from .suite import EXPLORES, Budget, Spent, agent, propose

EACH: Final = 2
"""Seeds of each sweep. Small sweeps propose more often."""

_PARENT: Final = re.compile(r"^Its instruction: “(.*)”$", re.MULTILINE)
_EVERY: Final = 1_000_000


def search_by_loop(
    server: Server, project: str, desk: DeskKind, client: EnvClient, seed: int, budget: Budget, model: str | None = None
) -> Found:
    """The instruction in force (empty: none) when the budget of the loop is spent, in a project of its own.

    The reflector is the local `model` (None: the scripted one). Of a model only its own calls are counted.
    """
    server.project(project)
    engine = server.engine(project)
    try:
        named = nullcontext(reflecting(_settings(recovery_model=model))) if model is not None else _scripted(desk, seed)
        with named as settings:
            store = PostgresStore(engine)
            house = House(settings, engine, store, PostgresBlobs(engine), Projector(engine, store=store))
            first_facts(house)
            _learn(house, client, desk, seed, budget, is_all=model is None)
            artifact, blob = build_memory_artifact(house.views(), BASE)
            house.blobs.put([blob])
            held = [each for each in pieces_of(house, artifact) if isinstance(each, OccasionPiece)]
            tried = {getattr(each.event, "piece", "") for each in store.read(types=["PieceTried"])}
            present = next(iter(instruction_in_force(held)), None)
            text, piece = ("", "") if present is None else (present.text, present.piece)
            leading = _leading(house, piece)
            spent = _count(store, is_all=model is None)
            return Found(text, len(tried), spent, text if leading is None else leading)
    finally:
        engine.dispose()


def _leading(house: House, present: str) -> str | None:
    """The text on trial in the place of the `present` instruction that did best; None if none did better than that.

    By the mean of what its runs passed more than their controls, over its trials and one more without a difference.
    """
    held = house.views().find(LOOSE["instruction"]).values()
    own = [each for each in held if each.status == "candidate" and each.title == present and each.treated.u > 0]
    best = max(own, key=lambda each: (Fraction(each.treated.u, each.treated.k + 1), each.piece), default=None)
    piece = None if best is None else load_piece(best, content_reader(house.blobs))
    return piece.text if isinstance(piece, OccasionPiece) else None


def _learn(house: House, client: EnvClient, desk: DeskKind, seed: int, budget: Budget, *, is_all: bool) -> None:
    """Sweeps until the budget is spent. Every group tries an instruction, where one is on trial."""
    course = Course(max_parallel=4, kinds=frozenset({"instruction"}), rng_seed=seed)
    task, executor, site = template_of(desk), agent(desk, EXPLORES), desk.words.site
    first = 1
    for number in count():
        pool = trial_pool(house.views(), content_reader(house.blobs), course.kinds)
        fitting = pool.among((task,), site, audience_of(executor))
        siblings, spent = siblings_for_trials(fitting, 1 + PairedRule().controls), _count(house.store, is_all=is_all)
        left = budget.left(spent)
        size = min(EACH, left // siblings) if budget.of == "runs" else EACH * (left > 0)
        if size < 1:
            return
        seeds = range(first, first + size)
        first = seeds.stop
        sweep = plan(
            house,
            house.views(),
            site,
            SeedSweep(f"round-{number}", (task,), seeds, siblings, temperatures=(course.temperature_micro,)),
            rng_seed=seed,
            trials=Trials(treated_micro=_EVERY, withheld_micro=0),
            executor=executor,
            kinds=course.kinds,
            least=siblings_for_one(fitting, 1 + PairedRule().controls),
        )
        play_sweep(house, client, sweep, course, Silent(), executor)


def _count(store: EventStore, *, is_all: bool) -> Spent:
    """Runs, and the calls of all models or of the reflector alone."""
    found = Spent(runs=sum(1 for _ in store.read(types=[RunStarted.__name__])))
    for each in store.read(types=[ModelCalled.__name__]):
        if isinstance(each.event, ModelCalled) and (is_all or each.event.role == "recovery"):
            found.calls += 1
            found.tokens += (each.event.input_tokens or 0) + (each.event.output_tokens or 0)
    return found


def _settings(**named: object) -> Settings:
    return Settings().model_copy(update=named)


@contextmanager
def _scripted(desk: DeskKind, seed: int) -> Iterator[Settings]:
    """Settings with a recovery model that answers by the scripted reflector."""
    numbers = count()

    def answer(asked: Asked) -> str:
        parent = _PARENT.search(asked.text)
        return json.dumps({"instruction": propose(desk, seed, next(numbers), "" if parent is None else parent[1])})

    with model_server(answer) as server:
        yield _settings(recovery_model="pool", recovery_url=server.url, recovery_key=SecretStr("none"))
