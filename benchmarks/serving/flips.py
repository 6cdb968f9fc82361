"""Flips of the champion under readers: how long a swap and its commit take, and what the readers see meanwhile."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from threading import Event

from agents.learning.memory import forget_everything
from agents.models.llamacpp.network import LlamaEngine
from agents.models.local.host import Host
from agents.models.model import ChatMessage, CompletionRequest, Model
from api.house import House
from api.queries.champion import present_champion
from api.serving.conversion import Conversions
from api.serving.deployments import DeployedModel, Deployment
from api.settings import Settings
from benchmarks.log.server import own_server
from benchmarks.report import Target, at_most
from eventlog.blobs import PostgresBlobs
from eventlog.events import Artifact, ChampionPointed, Sampling
from eventlog.postgres import PostgresStore
from eventlog.store import Append
from gate.promote import STREAM
from projections.engine.projector import Projector
from tests.tiny import make_base, planted_checkpoint

PROJECT = "flips"
READERS = 8
"""Half of them call the deployed model, the others read the champion from the log."""
MS = 1000
ASK = CompletionRequest((ChatMessage("user", ("open /boats/17",)),), Sampling(temperature_micro=0, max_tokens=8))

SWAP = "champion flips: ms of a swap at p50"
COMMIT = "champion flips: ms of its commit at p50"
WRONG = "champion flips: reads that saw neither champion, or both"
TARGETS: dict[str, Target] = {SWAP: at_most(1), COMMIT: at_most(10), WRONG: at_most(0)}


@dataclass(frozen=True, slots=True)
class Candidate:
    """An artifact, its model, and what that answers to ASK."""

    artifact: Artifact
    model: Model
    answer: tuple[int, ...]


@dataclass(slots=True)
class Seen:
    """How often a reader looked, and how often it saw something else than one whole champion."""

    calls: int = 0
    reads: int = 0
    wrong: int = 0


def flip_champion(models: Path, flips: int) -> dict[str, float]:
    """Point the champion to two checkpoints in turn, and swap their models, while readers look."""
    with ExitStack() as stack:
        base = make_base(models / "flips", "llama")
        saved = [planted_checkpoint(models / "flips" / "adapters", base, seed, scale=0.3) for seed in (1, 2)]
        files = Conversions(models, base)
        host = stack.enter_context(closing(Host(base.path, LlamaEngine(files.base_file()))))
        folders = {each.digest: each.path for each in saved}
        file_of = files.files_of(folders.__getitem__)
        pair = [_candidate(each.digest, host.adapted_model(each.digest, file_of)) for each in saved]
        server = stack.enter_context(own_server())
        server.project(PROJECT)
        engine = server.engine(PROJECT)
        stack.callback(engine.dispose)
        store = PostgresStore(engine)
        house = House(Settings(), engine, store, PostgresBlobs(engine), Projector(engine, store=store))
        return _flip(house, pair, flips)


def _candidate(weights: str, model: Model) -> Candidate:
    artifact, _ = forget_everything(weights)
    return Candidate(artifact, model, _answer(model))


def _answer(model: Model) -> tuple[int, ...]:
    return model.complete(ASK).samples[0].token_ids or ()


def _flip(house: House, pair: Sequence[Candidate], flips: int) -> dict[str, float]:
    deployment, stop, seen = Deployment(), Event(), [Seen() for _ in range(READERS)]
    _point(house, pair[0].artifact)
    deployment.swap(DeployedModel(pair[0].artifact, 0, pair[0].model))
    commits, swaps = [], []
    with ThreadPoolExecutor(READERS) as readers:
        ways = (_call, _read)
        under_way: list[Future[None]] = [
            readers.submit(ways[place % 2], house, deployment, pair, own, stop) for place, own in enumerate(seen)
        ]
        try:
            for number in range(1, flips + 1):
                new = pair[number % 2]
                began = time.perf_counter()
                _point(house, new.artifact)
                committed = time.perf_counter()
                former = deployment.swap(DeployedModel(new.artifact, number, new.model))
                swaps.append(time.perf_counter() - committed)
                commits.append(committed - began)
                if former is not None:
                    deployment.drain(former, 10)
        finally:
            stop.set()
        for each in under_way:
            each.result()
    return {
        "champion flips": flips,
        SWAP: MS * median(swaps),
        COMMIT: MS * median(commits),
        "champion flips: calls answered meanwhile": sum(each.calls for each in seen),
        "champion flips: reads of the log meanwhile": sum(each.reads for each in seen),
        WRONG: sum(each.wrong for each in seen),
    }


def _point(house: House, artifact: Artifact) -> None:
    pointed = ChampionPointed(artifact=artifact, by="operator", reason="a flip", evaluation=None)
    house.store.append([Append(STREAM, (pointed,), "bench")])


def _call(_: House, deployment: Deployment, pair: Sequence[Candidate], seen: Seen, stop: Event) -> None:
    """Call what is deployed: the answer has to be that of the artifact which the call took."""
    answers = {str(each.artifact): each.answer for each in pair}
    while not stop.is_set():
        with deployment.take() as taken:
            found = _answer(taken.model)
        seen.calls += 1
        seen.wrong += found != answers[str(taken.artifact)]


def _read(house: House, _: Deployment, pair: Sequence[Candidate], seen: Seen, stop: Event) -> None:
    """Read the champion: it has to be one of the two, and its position must not go back."""
    names, last = {str(each.artifact) for each in pair}, 0
    while not stop.is_set():
        found = present_champion(house.views())
        seen.reads += 1
        seen.wrong += str(found.pointed_artifact()) not in names or found.since < last
        last = found.since
