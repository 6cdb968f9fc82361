"""A frozen GRPO dataset from a log, sampled from the base model that is then trained on it.

Only the task is artificial. Tokens and log-probabilities come from the model, so training starts from the sampling
policy and staleness is realistic.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from api.datasets import freeze as datasets
from benchmarks.datasets.arms import QUERY, fold, views_on
from benchmarks.datasets.workload import PROMPT, SEEN, SIBLINGS, Tokens, Turn, run_of
from eventlog.blobs import Blob, PostgresBlobs
from eventlog.database import open_engine
from eventlog.postgres import PostgresStore
from eventlog.weights_folder import Base
from trainer.bases import load_model
from trainer.tiny import Shape, make_tiny

SHORTEST, LONGEST = 24, 56
"""Minimum and maximum number of tokens of an answer; rows have different lengths, as in real logs."""

SEED = 7
_AT_ONCE = 128
"""Number of rows sampled per batch."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """Token ids that a model sampled after a prompt, and their log-probabilities."""

    ids: list[int]
    logprobs: list[float]


def make_base(folder: Path) -> Base:
    """Create the default small model with about 3 million parameters."""
    texts = (f"open /boats/{number} and say the price of {number * 7}" for number in range(200))
    return make_tiny(folder, texts, Shape(), SEED)


def freeze(url: str, project: str, base: Base, groups: int, file: Path, device: str) -> datasets.DatasetSummary:
    """Log the runs of `groups` groups, freeze their GRPO dataset and write its rows."""
    engine = open_engine(url, project)
    blobs: list[Blob] = []
    requests = [run_of(group, index, tokens, blobs) for group, index, tokens in _sampled(base, groups, device)]
    PostgresBlobs(engine, waits=False).put(blobs)
    PostgresStore(engine).append_encoded(requests)
    engine.dispose()
    store, kept, views = views_on(url, project, fold(url, project))
    made = datasets.write_dataset(store, kept, views, QUERY, file)
    datasets.freeze_dataset(store, made, "bench")
    return made


def _sampled(base: Base, groups: int, device: str) -> list[tuple[int, int, Tokens]]:
    drawing = random.Random(SEED)  # noqa: S311 seeded
    asked = [drawing.choices(range(base.vocabulary), k=PROMPT) for _ in range(groups)]
    prompts = [prompt for prompt in asked for _ in range(SIBLINGS)]
    model = load_model(base, torch.float32).to(device)
    drawn = [
        one
        for first in range(0, len(prompts), _AT_ONCE)
        for one in _draw(model, prompts[first : first + _AT_ONCE], first)
    ]
    found = []
    for number, (prompt, one) in enumerate(zip(prompts, drawn, strict=True)):
        lengths = drawing.randint(SHORTEST, LONGEST), drawing.randint(SHORTEST, LONGEST)
        tokens = Tokens(prompt, _turns(one, *lengths), base.tokenizer, base.chat_template)
        found.append((*divmod(number, SIBLINGS), tokens))
    return found


def _turns(drawn: Drawn, first: int, second: int) -> tuple[Turn, ...]:
    """Two answers with a page between. The page's tokens were also sampled, but are recorded as environment tokens."""
    seen = first + SEEN
    return (
        Turn(drawn.ids[:first], drawn.logprobs[:first], drawn.ids[first:seen]),
        Turn(drawn.ids[seen : seen + second], drawn.logprobs[seen : seen + second], []),
    )


def _draw(model: Any, prompts: list[list[int]], seed: int) -> list[Drawn]:
    """Sample the maximum number of tokens after each of some prompts of equal length, at temperature 1."""
    generator = torch.Generator().manual_seed(seed)
    ids, logprobs = [], []
    with torch.no_grad():
        told = model(input_ids=torch.tensor(prompts, device=model.device), use_cache=True, logits_to_keep=1)
        for _ in range(2 * LONGEST + SEEN):
            known = torch.log_softmax(told.logits[:, -1], -1).cpu()
            token = torch.multinomial(known.exp(), 1, generator=generator)
            ids.append(token)
            logprobs.append(known.gather(1, token))
            told = model(input_ids=token.to(model.device), past_key_values=told.past_key_values, use_cache=True)
    return [Drawn(*pair) for pair in zip(torch.cat(ids, 1).tolist(), torch.cat(logprobs, 1).tolist(), strict=True)]
