"""A request for one sample of the computing thread, and its answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from eventlog.events import Sampling

from ..model import Finish


@dataclass(frozen=True, slots=True)
class Ask:
    """A request for one sample. `is_over` is a predicate on the tokens so far: no further one is wanted."""

    weights: str
    prompt: tuple[int, ...]
    sampling: Sampling
    sample: int
    ends: frozenset[int]
    is_over: Callable[[Sequence[int]], bool] | None = None


@dataclass(frozen=True, slots=True)
class SampledTokens:
    """Tokens of an answer, including the one that ends it, and their logprobs."""

    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    finish: Finish
