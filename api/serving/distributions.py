"""What a call's parameters say of the distribution that its tokens are drawn from. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from agents.models.openai import UNCUT

Distribution = Literal["changed", "unknown"]
"""How a call's tokens were drawn, where it is not by temperature and top_p alone."""

STATED: Final[Mapping[str, float]] = {"temperature": 1.0, "top_p": 1.0, **UNCUT}
"""Parameters that a server takes from its model's generation_config.json where a call leaves them out, and the values
that change nothing."""

_NEUTRAL: Final[Mapping[str, tuple[object, ...]]] = {
    "top_k": (-1, 0),
    "min_p": (0,),
    "typical_p": (1,),
    "top_n_sigma": (-1,),
    "repetition_penalty": (1,),
    "repeat_penalty": (1,),
    "frequency_penalty": (0,),
    "presence_penalty": (0,),
    "dry_multiplier": (0,),
    "xtc_probability": (0,),
    "dynatemp_range": (0,),
    "mirostat": (0,),
    "logit_bias": ({}, []),
    "allowed_token_ids": (),
    "bad_words": ([],),
    "min_tokens": (0,),
    "ignore_eos": (False,),
    "best_of": (1,),
    "use_beam_search": (False,),
}
"""Parameters of OpenAI's API, vLLM, SGLang and llama.cpp that change what is drawn, and the values that do not."""


def changed_parameters(body: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of the parameters in a body that change the distribution beyond temperature and top_p."""
    given = {name: body.get(name) for name in _NEUTRAL}
    return tuple(name for name, value in given.items() if value is not None and value not in _NEUTRAL[name])


def distribution_of(sent: Mapping[str, Any]) -> Distribution | None:
    """How tokens are drawn, by the body that the model server got; None: by temperature and top_p alone."""
    if changed_parameters(sent):
        return "changed"
    return "unknown" if any(sent.get(name) is None for name in STATED) else None
