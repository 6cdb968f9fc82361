"""Sampling parameters and step check results: fields of events of the run family."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from .event import FrozenModel

_MICRO = 1_000_000

ModelRole = Literal["policy", "verifier", "decomposer", "recovery"]
"""policy: chooses the agent's next action. verifier: checks a step. decomposer: turns free text into a plan. recovery:
proposes a fix for a failed run."""

CheckName = Literal["filter", "page", "step"]

Said = Literal["passed", "failed", "unknown"]
"""Result of a step check. unknown: the checker could not answer; it never counts as failed."""


class Sampling(FrozenModel):
    """Sampling parameters. Nothing is left to a backend's default, except the seed if it is None."""

    temperature_micro: Annotated[int, Field(ge=0, le=2 * _MICRO)]
    max_tokens: Annotated[int, Field(ge=1, le=_MICRO)]
    top_p_micro: Annotated[int, Field(ge=1, le=_MICRO)] = _MICRO
    seed: Annotated[int, Field(ge=0, le=2**31 - 1)] | None = None
    stop: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    samples: Annotated[int, Field(ge=1, le=128)] = 1
    wants_logprobs: bool = False
