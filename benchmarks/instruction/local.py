"""A language model in this process as the reflector of both searches, and what each search found, kept in a folder."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from agents.models.errors import ModelFailure
from agents.models.llamacpp.network import PREFIX
from agents.models.model import ChatMessage, CompletionRequest, Model
from api.house import House
from api.settings import Settings
from api.sweeps.models import local_host
from api.training.bases import add_base, find_source
from api.training.weights import base_of
from benchmarks.log.server import Server
from eventlog.blobs import PostgresBlobs
from eventlog.events import Sampling
from eventlog.postgres import PostgresStore
from projections.engine.projector import Projector

from .suite import Spent

SAMPLING: Final = Sampling(temperature_micro=700_000, max_tokens=500)
"""As the loop asks for all but the first of its instructions; each call has a seed of its own."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a search found, how many instructions it tried (0: not known), what it took, and what leads without proof.

    `leading` is the text that did best in trials against the one found, or that one itself; None of a search that
    proves nothing.
    """

    text: str
    tried: int
    spent: Spent
    leading: str | None = None


@dataclass(frozen=True)
class Reflector:
    """Answers the prompts of a library, and counts them and their tokens."""

    model: Model
    seed: int
    spent: Spent = field(default_factory=Spent)

    def __call__(self, prompt: str) -> str:
        """The answer; empty if the model has none, as where the prompt is too long for it."""
        self.spent.calls += 1
        sampling = SAMPLING.model_copy(update={"seed": self.seed * 100_000 + self.spent.calls})
        try:
            said = self.model.complete(CompletionRequest((ChatMessage("user", (prompt,)),), sampling))
        except ModelFailure:
            return ""
        self.spent.tokens += (said.input_tokens or 0) + (said.output_tokens or 0)
        return said.samples[0].text


def reflecting(settings: Settings) -> Settings:
    """Settings under which a reflector answers: by llama.cpp in q8_0 on two threads.

    By transformers on one thread 500 tokens of SmolLM2 took 70 s; so it was 24 calls in five minutes.
    """
    return settings.model_copy(update={"model_gguf": "q8_0", "model_threads": 2})


def model_name(server: Server, named: str, models: Path) -> str:
    """The name by which the recovery model of a loop is this base: a folder, a GGUF file, or one by name."""
    server.project("instruction_base")
    engine = server.engine("instruction_base")
    try:
        store, settings = PostgresStore(engine), Settings().model_copy(update={"models": models})
        house = House(settings, engine, store, PostgresBlobs(engine), Projector(engine, store=store))
        return f"{PREFIX}{base_of(house, add_base(house, find_source(named, None, None)).base, None).path}"
    finally:
        engine.dispose()


@contextmanager
def reflector_of(name: str, seed: int) -> Iterator[Reflector]:
    """The model of a name, loaded until the end of the block."""
    with local_host(reflecting(Settings()), name) as (host, _):
        yield Reflector(host.base(), seed)


def once(file: Path | None, search: Callable[[], Found]) -> Found:
    """What a search found: read from a file if it is there, else searched for and kept there. None: kept nowhere."""
    if file is None:
        return search()
    if file.exists():
        facts = json.loads(file.read_text("utf-8"))
        return Found(facts["text"], facts["tried"], Spent(**facts["spent"]), facts["leading"])
    found = search()
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(".part")
    part.write_text(json.dumps(asdict(found)), "utf-8")
    part.replace(file)
    return found
