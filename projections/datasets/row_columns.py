"""The columns of token dataset rows: the only definition of the schema of each kind of dataset.

`token_rows` writes all columns; training reads those of `TRAINED`. The text columns are TRL's: `messages`, or `prompt`
and `completion`, or `prompt`, `chosen` and `rejected`. Training uses the id columns; mask and logprob lists have one
entry for each completion token.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import polars as pl

Kind = Literal["sft", "dpo", "grpo"]

TEXT, WHOLE, REAL = pl.String(), pl.Int64(), pl.Float64()
IDS, MASK = pl.List(pl.Int64()), pl.List(pl.Int8())
MESSAGE: Final = {"role": pl.String(), "content": pl.String()}
MESSAGES: Final = pl.List(pl.Struct(MESSAGE))

_ORIGIN: Mapping[str, pl.DataType] = {
    "group": TEXT,  # siblings of one instance
    "template": TEXT,
    "env_seed": WHOLE,
    "position": WHOLE,  # of the RunFinished event
    "weights": TEXT,
    "model": TEXT,
    "tokenizer": TEXT,  # SHA-256 of the base's tokenizer.json
    "chat_template": TEXT,  # SHA-256 of the base's chat_template.jinja
    "temperature": REAL,  # of the sampling; the same in all rows of a GRPO dataset
    "top_p": REAL,
    "max_tokens": WHOLE,
    "stop": pl.List(pl.String()),
}
_OF_RUN: Mapping[str, pl.DataType] = {
    "run": TEXT,
    "sibling": WHOLE,
    "call": WHOLE,
    "calls": WHOLE,
    "truncated": pl.Boolean(),
    "artifact": TEXT,
    "score": WHOLE,
    "reward": WHOLE,
}
_TOKENS: Mapping[str, pl.DataType] = {
    "prompt_ids": IDS,
    "completion_ids": IDS,  # with the end-of-turn token
    "mask": MASK,  # 1: the model's token; 0: the environment's
}
_SIDE: Mapping[str, pl.DataType] = {
    "ids": IDS,
    "mask": MASK,
    "truncated": pl.Boolean(),
    "run": TEXT,
    "artifact": TEXT,
    "reward": WHOLE,
}
_PAIR: Mapping[str, pl.DataType] = {
    f"{side}_{name}": kind for side in ("chosen", "rejected") for name, kind in _SIDE.items()
}

SCHEMAS: Mapping[Kind, Mapping[str, pl.DataType]] = {
    "sft": {"messages": MESSAGES, **_TOKENS, **_OF_RUN, **_ORIGIN},
    "dpo": {"prompt": MESSAGES, "chosen": MESSAGES, "rejected": MESSAGES, "prompt_ids": IDS, **_PAIR, **_ORIGIN},
    "grpo": {
        "prompt": MESSAGES,
        "completion": MESSAGES,
        **_TOKENS,
        "logprobs": pl.List(REAL),  # under the policy that sampled; 0.0 where the mask is 0
        "advantage": REAL,  # relative to the group; computed when the dataset was built
        **_OF_RUN,
        **_ORIGIN,
    },
}
"""The columns of each kind. Rewards and scores are in millionths; an unknown reward is null, never 0."""

_FROM = ("group", "position", "tokenizer", "chat_template")
_TRAINED: Mapping[Kind, tuple[str, ...]] = {
    "sft": ("prompt_ids", "completion_ids", "mask", "run", *_FROM),
    "dpo": (
        *("prompt_ids", "chosen_ids", "chosen_mask", "rejected_ids", "rejected_mask", "chosen_run", "rejected_run"),
        *_FROM,
    ),
    "grpo": (
        *("prompt_ids", "completion_ids", "logprobs", "mask", "advantage", "reward", "temperature", "run"),
        *_FROM,
    ),
}

TRAINED: Mapping[Kind, Mapping[str, pl.DataType]] = {
    kind: {name: SCHEMAS[kind][name] for name in names} for kind, names in _TRAINED.items()
}
"""The columns that training reads, in the order in which they are hashed. None of them may be null."""

PER_TOKEN: Mapping[Kind, tuple[str, ...]] = {
    kind: tuple(name for name, each in columns.items() if isinstance(each, pl.List))
    for kind, columns in TRAINED.items()
}
"""The columns of TRAINED that have an entry for each token."""
