"""Memory and time of a pass at a vocabulary of 152,000 tokens, and sampling at it, on a CUDA device.

The model has the shape of Qwen3-0.6B and random weights, because only sizes matter here. A pass scores the completions
of some rows and goes backward from the sum, as a step of GRPO does: with the logits of all positions at once, or in
parts (`trainer.batches`); and with all activations kept, or computed again (gradient checkpointing).
"""

from __future__ import annotations

import shutil
import statistics
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from agents.models.local.host import Host
from agents.models.local.network import TransformersEngine
from agents.models.model import ChatMessage, CompletionRequest
from eventlog.events import Sampling
from eventlog.weights_folder import Base
from trainer.adapters import fresh
from trainer.batches import Batch, Policy, logprobs_of
from trainer.request import Lora

VOCABULARY: Final = 151_936
_MICRO: Final = 1_000_000
_GIB: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of a pass: rows, tokens of a prompt and of a completion; of sampling: answers at once and their tokens."""

    rows: int = 8
    prompt: int = 256
    completion: int = 1_024
    repeats: int = 5
    answers: int = 32
    tokens: int = 64
    threads: int = 8


SIZES: Final = Sizes()
MODEL: Final[Mapping[str, int]] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 1_024,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "intermediate_size": 3_072,
    "max_position_embeddings": 4_096,
}
"""The sizes of Qwen3-0.6B."""


def figures_of(
    folder: Path, tiny: Base, sizes: Sizes = SIZES, model: Mapping[str, int] = MODEL, device: str = "cuda"
) -> dict[str, float]:
    """Peak memory and time of each way of a pass, and answers sampled in a second. `tiny` lends its tokenizer."""
    torch.manual_seed(0)
    config = AutoConfig.for_model("qwen3", tie_word_embeddings=True, eos_token_id=1, pad_token_id=0, **model)
    with torch.device(device):
        network: Any = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    place = _saved(folder / "large", network, tiny)
    figures = _passes(network, sizes, device)
    del network
    figures |= _sampled(place, sizes, device)
    return figures


def _passes(network: Any, sizes: Sizes, device: str) -> dict[str, float]:
    """Figures of the four ways; and how far the log-probabilities of both ways to score are apart."""
    policy = Policy(fresh(network, Lora()), 0, device, 1.0)
    batch = _batch(sizes, int(network.config.vocab_size), device)
    ways: Mapping[str, Callable[[], Any]] = {
        "all logits at once": lambda: _at_once(policy, batch),
        "logits in parts": lambda: policy.logprobs(batch),
    }
    policy.model.train()
    figures: dict[str, float] = {}
    with torch.no_grad():
        one, other = (score() for score in ways.values())
    figures["largest difference of a log-probability"] = float((one - other).abs().max())
    for kept in ("activations kept", "activations computed again"):
        if kept != "activations kept":
            policy.model.enable_input_require_grads()
            policy.model.gradient_checkpointing_enable({"use_reentrant": False})
        for name, score in ways.items():
            gib, seconds = _measured(policy.model, score, sizes.repeats, device)
            figures[f"{name}, {kept}, peak GiB"] = gib
            figures[f"{name}, {kept}, seconds a pass"] = seconds
    return figures


def _at_once(policy: Policy, batch: Batch) -> Any:
    """The log-probabilities from the logits of all positions, as `Policy.logprobs` has them where they are few."""
    told = policy.model(
        input_ids=batch.ids,
        attention_mask=batch.attention,
        position_ids=batch.places,
        logits_to_keep=batch.width + 1,
        use_cache=False,
    )
    return logprobs_of(told.logits[:, :-1], batch.ids[:, -batch.width :], policy.temperature)


def _measured(model: Any, score: Callable[[], Any], repeats: int, device: str) -> tuple[float, float]:
    """Peak memory of a pass in GiB, weights included, and the median of its seconds; the first pass is a warm-up."""
    seconds: list[float] = []
    for turn in range(repeats + 1):
        model.zero_grad(set_to_none=True)
        _settle(device, forget=True)
        began = time.perf_counter()
        score().sum().backward()
        _settle(device)
        if turn:
            seconds.append(time.perf_counter() - began)
    peak = torch.cuda.max_memory_allocated() if device == "cuda" else 0
    return peak / _GIB, statistics.median(seconds)


def _settle(device: str, *, forget: bool = False) -> None:
    if device != "cuda":
        return
    torch.cuda.synchronize()
    if forget:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def _batch(sizes: Sizes, vocabulary: int, device: str) -> Batch:
    """Rows of random tokens, all of the same length."""
    shape = (sizes.rows, sizes.prompt + sizes.completion)
    ids = torch.randint(2, vocabulary, shape, device=device)
    ones = torch.ones_like(ids)
    own = torch.zeros(sizes.rows, sizes.completion, device=device)
    return Batch(ids, ones, ones.cumsum(-1) - 1, own, own, own[:, 0])


def _saved(place: Path, network: Any, tiny: Base) -> Path:
    """A base folder of the random weights, with the tokenizer of another one."""
    network.save_pretrained(place)
    for file in tiny.path.iterdir():
        if file.is_file() and not (place / file.name).exists() and file.suffix != ".safetensors":
            shutil.copyfile(file, place / file.name)
    return place


def _sampled(place: Path, sizes: Sizes, device: Any) -> dict[str, float]:
    """Tokens a second of the host in this process, with one thread that samples and with several."""
    figures: dict[str, float] = {}
    for threads in (1, sizes.threads):
        with closing(Host(place, TransformersEngine(device, threads))) as host:
            for tokens in (4, sizes.tokens):  # the first answers load the weights
                sampling = Sampling(
                    temperature_micro=_MICRO, max_tokens=tokens, samples=sizes.answers, wants_logprobs=True
                )
                request = CompletionRequest((ChatMessage("user", ("open /boats/7 and say the price",)),), sampling)
                began = time.perf_counter()
                drawn = host.base().complete(request)
            rate = (drawn.output_tokens or 0) / (time.perf_counter() - began)
            figures[f"{sizes.answers} answers at once, {_threads(threads)}, tokens/s"] = rate
    return figures


def _threads(threads: int) -> str:
    return "one sampling thread" if threads == 1 else f"{threads} sampling threads"
