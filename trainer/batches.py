"""Rows as padded tensors, and the log-probability of each of their tokens.

Prompts are padded on the left and completions on the right, so that completions share one block of columns and only
their logits are computed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from .gguf_names import ARCHITECTURES

if TYPE_CHECKING:
    from torch import Tensor

MOST_LOGITS: Final = 64 * 1024 * 1024
"""Most logits that are in memory at once: 256 MiB of float32, of which the softmax and its gradient make copies."""

_ALIKE: Final = 32
"""Completions of rows that stand together differ by fewer tokens. Of 16 to 128 the best for 88 rows of clicks."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows as tensors.

    `ids`, `attention` and `places` are (rows, prompt + completion), `logged` and `mask` are (rows, completion),
    `advantage` is (rows,).
    """

    ids: Tensor
    attention: Tensor
    places: Tensor
    logged: Tensor
    mask: Tensor
    advantage: Tensor

    @property
    def width(self) -> int:
        """Number of completion columns."""
        return int(self.mask.shape[1])


def collate_rows(frame: pl.DataFrame, pad: int, device: str) -> Batch:
    """The rows of a GRPO frame as tensors on a device."""
    import torch

    rows = frame.select("prompt_ids", "completion_ids", "logprobs", "mask", "advantage").to_dict(as_series=False)
    before = max(len(ids) for ids in rows["prompt_ids"])
    after = max(len(ids) for ids in rows["completion_ids"])

    def right(lists: Sequence[Sequence[float]], fill: float) -> list[list[float]]:
        return [[*one, *[fill] * (after - len(one))] for one in lists]

    def left(lists: Sequence[Sequence[float]], fill: float) -> list[list[float]]:
        return [[*[fill] * (before - len(one)), *one] for one in lists]

    def beside(first: list[list[float]], second: list[list[float]]) -> Tensor:
        return torch.tensor([a + b for a, b in zip(first, second, strict=True)], device=device)

    ones = {name: [[1] * len(ids) for ids in rows[name]] for name in ("prompt_ids", "completion_ids")}
    attention = beside(left(ones["prompt_ids"], 0), right(ones["completion_ids"], 0))
    mask = torch.tensor(right(rows["mask"], 0), device=device, dtype=torch.float32)
    return Batch(
        ids=beside(left(rows["prompt_ids"], pad), right(rows["completion_ids"], pad)),
        attention=attention,
        places=(attention.cumsum(-1) - 1).clamp(min=0),
        logged=torch.tensor(right(rows["logprobs"], 0.0), device=device, dtype=torch.float32),
        mask=mask,
        advantage=torch.tensor(rows["advantage"], device=device, dtype=torch.float32),
    )


@dataclass(frozen=True, slots=True)
class Policy:
    """A model that scores rows at the temperature at which they were sampled."""

    model: Any
    pad: int
    device: str
    temperature: float
    shares_prompts: bool = True

    def logprobs(self, batch: Batch) -> Tensor:
        """The log-probability of each completion token, (rows, completion). Values at padding are undefined.

        A prompt that several rows have goes through the model once, with its gradient. Where all logits would be large,
        they are computed for some positions at a time, again in the backward pass.
        """
        causal = self.model.get_base_model() if hasattr(self.model, "get_base_model") else self.model
        is_known = causal.config.model_type in ARCHITECTURES
        is_shared = self.shares_prompts and is_known and not getattr(causal.config, "use_sliding_window", False)
        inputs = self._inputs(causal.base_model, batch) if is_shared else _whole(batch)
        chosen = batch.ids[:, -batch.width :]
        at_once = MOST_LOGITS // (len(chosen) * int(causal.config.vocab_size))
        if at_once >= batch.width or not is_known:
            logits = self.model(**inputs, logits_to_keep=batch.width).logits
            return logprobs_of(logits, chosen, self.temperature)
        states = causal.base_model(**inputs).last_hidden_state[:, -batch.width :]
        head = causal.get_output_embeddings()
        return logprobs_in_parts(head, states, chosen, self.temperature, max(1, at_once))

    def _inputs(self, decoder: Any, batch: Batch) -> dict[str, Any]:
        """What is left to read of the rows: all but the last token, and of shared prompts their last one alone."""
        before = batch.ids.shape[1] - batch.width - 1
        prompts = batch.ids[:, :before] * batch.attention[:, :before] - (1 - batch.attention[:, :before])
        first, own = _first_of_each(prompts)
        if before == 0 or len(first) == len(own):
            return _whole(batch)
        kept = decoder(
            input_ids=batch.ids[first, :before],
            attention_mask=batch.attention[first, :before],
            position_ids=batch.places[first, :before],
            use_cache=True,
        ).past_key_values
        kept.batch_select_indices(own)
        return {
            "input_ids": batch.ids[:, before:-1],
            "attention_mask": batch.attention[:, :-1],
            "position_ids": batch.places[:, before:-1],
            "past_key_values": kept,
            "use_cache": True,
        }

    def score(self, frame: pl.DataFrame, rows: Sequence[int], rows_per_pass: int) -> dict[int, Tensor]:
        """The log-probabilities of the completion tokens of some rows, without gradients, on the CPU."""
        import torch

        found = {}
        with torch.no_grad():
            for taken in pieces(frame, rows, rows_per_pass):
                part = frame[list(taken)]
                scored = self.logprobs(collate_rows(part, self.pad, self.device)).cpu()
                for row, values, length in zip(taken, scored, part["completion_ids"].list.len(), strict=True):
                    found[row] = values[:length].clone()
        return found


def _whole(batch: Batch) -> dict[str, Any]:
    """The rows without their last token, which nothing follows."""
    return {
        "input_ids": batch.ids[:, :-1],
        "attention_mask": batch.attention[:, :-1],
        "position_ids": batch.places[:, :-1],
        "use_cache": False,
    }


def _first_of_each(rows: Tensor) -> tuple[Tensor, Tensor]:
    """The rows that are like none before them, by number; and for each row, which of these it is like."""
    import torch

    alike = (rows[:, None] == rows[None]).all(-1)
    first = alike.int().argmax(1)  # the first row that is like it
    found, own = torch.unique(first, return_inverse=True)
    return found, own


def logprobs_of(logits: Tensor, chosen: Tensor, temperature: float = 1.0) -> Tensor:
    """Log-probabilities of the chosen tokens, from logits of all tokens."""
    import torch

    exact = logits if logits.dtype == torch.float64 else logits.float()
    return torch.log_softmax(exact / temperature, -1).gather(-1, chosen[..., None])[..., 0]


def logprobs_in_parts(head: Any, states: Tensor, chosen: Tensor, temperature: float, size: int) -> Tensor:
    """The same from hidden states, `size` positions at a time; no logits are kept for the backward pass."""
    import torch
    from torch.utils.checkpoint import checkpoint

    def part(own: Tensor, tokens: Tensor) -> Tensor:
        return logprobs_of(head(own), tokens, temperature)

    found = [
        checkpoint(part, own, tokens, use_reentrant=False)
        for own, tokens in zip(states.split(size, 1), chosen.split(size, 1), strict=True)
    ]
    return torch.cat(found, 1)


def pieces(frame: pl.DataFrame, rows: Sequence[int], size: int) -> Iterator[Sequence[int]]:
    """Split rows into pieces of at most `size`; the total is unchanged.

    Rows of one prompt stand together, because they share it, but apart where what follows is of another length, because
    that is padded.
    """
    prompts, answers = frame["prompt_ids"].to_list(), frame["completion_ids"].list.len().to_list()

    def alike(row: int) -> tuple[int, int, list[int], int, int]:
        return (answers[row] // _ALIKE, len(prompts[row]), prompts[row], answers[row], row)

    ordered = sorted(rows, key=alike)
    for first in range(0, len(ordered), size):
        yield ordered[first : first + size]
