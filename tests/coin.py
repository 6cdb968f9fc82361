"""A tiny base model that begins a task of the help desk in two draws of five, and then does all of it.

It is warmed up on demonstrations of two plans of one task, played on a real site: one does it, one says at once that it
is done. So some of its runs pass, at temperature 0 none does, and one stage of training turns it over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from agents.envs.clients.client import EnvClient
from agents.executors.demonstration import Demonstrator
from agents.learning.memory import forget_everything
from agents.rollouts.play import Job, Means
from agents.rollouts.record import rollout, stopwatch
from agents.rollouts.sweep import SeedSweep
from api.controllers.slow_next import benchmark_name
from api.datasets import freeze as datasets
from api.datasets.demonstrations import keep_tokens
from api.evaluations.benchmarks import without_plans
from api.sweeps.plan import site_templates
from eventlog.blobs import BlobStore, MemoryBlobs
from eventlog.blobs.conversations import get_messages
from eventlog.events import BenchmarkFrozen, ModelCalled, Rules, SeedsRule, SftQuery, Step, Template
from eventlog.store import EventStore
from eventlog.weights_folder import Base
from gate.benchmark import freeze_benchmark
from tests.unit.test_agent_samples import BOOK, a_store, views
from trainer.request import DatasetRef, WarmupConfig, WarmupRequest
from trainer.tiny import Shape, make_tiny
from trainer.warmup import warm_up

SITE: Final = "helpdesk"
TASK: Final = "helpdesk.control_callback"
SHOWN_SEEDS: Final = (20_000,)
"""An instance that no loop plays here. What is said in another one has the same tokens and would teach nothing more."""

_SIBLINGS: Final = {"does": 2, "declines": 3}
_DOES: Final = (
    Step(type="navigate", intent="", url="/callbacks"),
    Step(type="select_option", intent="", label="Slot", value="Morning"),
    Step(type="submit", intent="", label="Ask for a slot"),
)
_DECLINES: Final = (Step(type="finish", intent=""),)
_SHAPE: Final = Shape(vocabulary=480, hidden=64, layers=2, heads=4, key_heads=2, inner=128, longest=768)
_WARMING: Final = WarmupConfig(steps=120, learning_rate="0.005", rows_per_step=10, seed=1)


def make_coin(folder: Path, client: EnvClient) -> Base:
    """Play the demonstrations on the site and warm up on them; the base model lies in a folder of this one."""
    store, blobs = a_store(), MemoryBlobs()
    task = _task(client)
    means = Means(client, BOOK, SeedsRule(), stopwatch, Demonstrator(wording="brief"))
    for name, plan in (("does", _DOES), ("declines", _DECLINES)):
        for job in _jobs(name, task.model_copy(update={"plan_steps": plan})):
            rollout(job, store, blobs, means)
    start = make_tiny(folder, _words(store, blobs), _SHAPE, seed=1)
    query = SftQuery(runs="demonstration", min_score=0, tokens=keep_tokens(blobs, start.path))
    file = folder / "demonstrations.parquet"
    made = datasets.write_dataset(store, blobs, views(store), query, file)
    rows = DatasetRef(path=str(file), digest=made.digest, upto=made.upto)
    request = WarmupRequest(dataset=rows, base=str(start.path), out=str(folder), config=_WARMING)
    return warm_up(request, lambda _line: None)


def smallest_benchmark(client: EnvClient) -> BenchmarkFrozen:
    """The slow loop's benchmark of that task, as small as the gate's rules allow."""
    sealed = range(10_000, 10_000 + Rules().min_pairs)
    return freeze_benchmark(benchmark_name(SITE), SITE, without_plans([_task(client)]), [9_000], sealed, 1)


def _task(client: EnvClient) -> Template:
    (found,) = [each for each in site_templates(client) if each.template_id == TASK]
    return found


def _jobs(name: str, task: Template) -> Iterator[Job]:
    artifact, _ = forget_everything("base")
    for spec in SeedSweep(name, [task], SHOWN_SEEDS, _SIBLINGS[name]).specs():
        yield Job(spec, task, SITE, artifact, (), None, None, learns=False)


def _words(store: EventStore, blobs: BlobStore) -> Iterator[str]:
    """All that was said in the demonstrations, for a tokenizer."""
    ended = {r.event.run: r.event.messages for r in store.read() if isinstance(r.event, ModelCalled)}
    for _, address in sorted(ended.items()):
        yield from (_text(message) for message in get_messages(blobs, address))


def _text(message: Mapping[str, Any]) -> str:
    return "\n".join(part["text"] for part in message["parts"])
