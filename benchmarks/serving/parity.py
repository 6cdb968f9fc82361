"""Distance of llama.cpp from Transformers: greedy answers, and logprobs against a fresh float32 pass."""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from agents.models.llamacpp.context import CacheType
from agents.models.llamacpp.network import LlamaEngine
from agents.models.local.host import Host
from agents.models.local.sampling import draw_token, uniform
from agents.models.model import ChatMessage, Completion, CompletionRequest, Model
from api.serving.conversion import Conversions, Precision
from eventlog.events import Sampling
from eventlog.weights_folder import Base
from trainer.adapters import restore_adapter
from trainer.bases import load_model
from trainer.checkpoint import Checkpoint, load_tensors

MICRO = 1_000_000
TIE = 1e-4
"""Two logits that are nearer than this are a tie: rounding may choose either."""

THINGS = ("a boat", "the price of an engine", "a harbour", "seventeen and twenty-five", "the capital of France")
ASKS = ("What is {}?", "Describe {} in one sentence.", "Where would I find {}?", "Name something like {}.")
ORDERS = ("Answer with one word.", "Be brief.")
PROMPTS = tuple(f"{ask.format(thing)} {order}" for thing in THINGS for ask in ASKS for order in ORDERS)


@dataclass(frozen=True, slots=True)
class Form:
    """What llama.cpp computes in: precision of its weights, type of its attention cache, and flash attention or not."""

    precision: Precision
    cache: CacheType = "f32"
    flash: bool = False

    def __str__(self) -> str:
        """Name of the form in the table."""
        further = [f"a cache in {self.cache}"] if self.cache != "f32" else []
        further += ["flash attention"] if self.flash else []
        return " with ".join([self.precision, *([" and ".join(further)] if further else [])])


@dataclass(frozen=True, slots=True)
class Parity:
    """Answers that are equal but for ties, and the distances of logprobs.

    `again` counts drawn answers whose bytes come again when their logged ids are teacher-forced, `ended` those of them
    that end their turn themselves.
    """

    equal: int
    largest: float
    mean: float
    again: int
    ended: int


def compare(base: Base, checkpoint: Checkpoint | None, form: Form, models: Path, tokens: int, threads: int) -> Parity:
    """Compare the answers of both to all prompts, of the base or of a checkpoint on it."""
    conversions = Conversions(models, base, form.precision)
    network = reference(base, checkpoint)
    engine = LlamaEngine(conversions.base_file(), threads, cache=form.cache, flash=form.flash)
    with closing(Host(base.path, engine)) as ours:
        found = ours.base()
        if checkpoint is not None:
            found = ours.adapted_model(checkpoint.digest, conversions.files_of(lambda _: checkpoint.path))
        greedy = answer(found, 0, tokens)
        drawn = answer(found, MICRO, tokens)
        again = [is_drawn_again(network, ours, each, seed) for seed, each in enumerate(drawn)]
    distances = [distance for each in drawn for distance in apart(network, each)]
    return Parity(
        equal=sum(is_greedy(network, each) for each in greedy),
        largest=max(distances),
        mean=fmean(distances),
        again=sum(again),
        ended=sum(each.samples[0].finish == "stop" for each, same in zip(drawn, again, strict=True) if same),
    )


def reference(base: Base, checkpoint: Checkpoint | None) -> Any:
    """The same weights in Transformers, in float32."""
    import torch

    model = load_model(base, torch.float32)
    if checkpoint is None:
        return model
    tensors = load_tensors(checkpoint)
    return restore_adapter(model, checkpoint.manifest.lora, tensors, checkpoint.path).eval()


def answer(model: Model, temperature: int, tokens: int) -> list[Completion]:
    """The answers to all prompts, eight at a time."""

    def ask(numbered: tuple[int, str]) -> Completion:
        number, prompt = numbered
        sampling = Sampling(temperature_micro=temperature, max_tokens=tokens, seed=number, wants_logprobs=True)
        return model.complete(CompletionRequest((ChatMessage("user", (prompt,)),), sampling))

    with ThreadPoolExecutor(8) as asking:
        return list(asking.map(ask, enumerate(PROMPTS)))


def is_greedy(network: Any, found: Completion) -> bool:
    """True if each token is the likeliest by a fresh pass over all of them, or as likely but for a tie."""
    logits, ids = _logits(network, found)
    chosen = [float(row[token]) for row, token in zip(logits, ids, strict=True)]
    return all(float(row.max()) - own <= TIE for row, own in zip(logits, chosen, strict=True))


def apart(network: Any, found: Completion) -> list[float]:
    """Distance of each logged logprob from that of a fresh pass."""
    import torch

    logits, ids = _logits(network, found)
    known = torch.log_softmax(logits.double(), -1)
    (sample,) = found.samples
    logged = [token.logprob for token in sample.tokens or ()]
    return [abs(float(row[token]) - own) for row, token, own in zip(known, ids, logged, strict=True)]


def is_drawn_again(network: Any, host: Host, found: Completion, seed: int) -> bool:
    """True if Transformers, forced along the logged ids, draws their bytes again by the same seed, its end included.

    A draw that falls within TIE of the border between two tokens is excused, as either is right.
    """
    logits, ids = _logits(network, found)
    (sample,) = found.samples
    first = len(found.prompt_token_ids or ())
    for place, (row, token) in enumerate(zip(logits.numpy(), ids, strict=True), start=first):
        if not is_near_draw(row, token, uniform(seed, 0, place)):
            return False
    return host.dialogue.text(ids).encode() == sample.text.encode()


def is_near_draw(row: Any, token: int, number: float) -> bool:
    """True if a number within TIE of this one draws the token. Draws go along the ids, so those between are near."""
    low, high = max(0.0, number - TIE), min(math.nextafter(1.0, 0.0), number + TIE)
    return draw_token(row, MICRO, MICRO, low)[0] <= token <= draw_token(row, MICRO, MICRO, high)[0]


def _logits(network: Any, found: Completion) -> tuple[Any, Sequence[int]]:
    """Logits before each sampled token, from one pass over the prompt and all of them."""
    import torch

    prompt, ids = found.prompt_token_ids or (), found.samples[0].token_ids or ()
    with torch.no_grad():
        logits = network(input_ids=torch.tensor([[*prompt, *ids]])).logits[0]
    return logits[len(prompt) - 1 : -1], ids
