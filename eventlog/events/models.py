"""How a model is asked, and what is said of a step. They ride on events of the run family."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from .event import FrozenModel

_MICRO = 1_000_000

ModelRole = Literal["policy", "verifier", "decomposer", "recovery"]
"""policy: it chose the agent's next action. verifier: it looked at a step. decomposer: it made a plan of free text.
recovery: it proposed a cure of a failed run."""

CheckName = Literal["filter", "page", "step"]

Said = Literal["passed", "failed", "unknown"]
"""unknown: the one who was asked could not answer. It is no signal, and never counts as failed."""


class Sampling(FrozenModel):
    """How to draw. Nothing is left to a backend's default but the seed, where None asks for none."""

    temperature_micro: Annotated[int, Field(ge=0, le=2 * _MICRO)]
    max_tokens: Annotated[int, Field(ge=1, le=_MICRO)]
    top_p_micro: Annotated[int, Field(ge=1, le=_MICRO)] = _MICRO
    seed: Annotated[int, Field(ge=0, le=2**31 - 1)] | None = None
    stop: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    samples: Annotated[int, Field(ge=1, le=128)] = 1
    wants_logprobs: bool = False
