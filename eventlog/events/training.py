"""Training: what a stage was asked for, how it went, and the checkpoint it gave.

What a stage is asked for is defined here, because it rides on an event. Numbers that are no integers are decimal
strings, so that a digest may be taken over them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, TypeAdapter

from .event import BlobAddress, Count, Digest, Event, FrozenModel, Name


def _normal(text: str) -> str:
    """The one way to write a number: no exponent, no trailing zeros. Raises ValueError."""
    try:
        number = Decimal(text)
    except InvalidOperation as error:
        raise ValueError(f"{text!r} is no decimal number") from error
    if not number.is_finite() or number < 0:
        raise ValueError(f"{text!r} is no finite number from 0 on")
    return format(number.normalize(), "f")


Number = Annotated[str, AfterValidator(_normal)]
"""A number from 0 on as a decimal string, in its shortest form without an exponent."""

Amount = Annotated[int, Field(ge=1, le=2**31)]

Algorithm = Literal["warmup", "sft", "dpo", "grpo"]
"""What learns. A warm-up gives a base model, the others an adapter on one."""

Aggregation = Literal["grpo", "bnpo", "dr_grpo"]
"""How tokens become one number. grpo: the mean over rows of each row's mean over its tokens. bnpo: the mean over all
tokens of the step. dr_grpo: the sum over all tokens, divided by rows times `max_tokens`. The names are TRL's."""

Form = Literal["peft", "gguf-adapter", "gguf-f16", "gguf-q8_0"]
"""What a checkpoint is written as, for those who serve it."""


class Lora(FrozenModel):
    """The shape of an adapter. `targets` are names of linear layers, or all of them, a mixture's experts included."""

    rank: Amount = 8
    alpha: Amount = 16
    targets: tuple[str, ...] | Literal["all-linear"] = "all-linear"


class _Steps(FrozenModel):
    """What every stage has. One step is one update of the weights. `device` auto takes CUDA where there is some."""

    steps: Amount
    learning_rate: Number
    seed: Count = 0
    threads: Amount = 1
    device: Literal["auto", "cpu", "cuda"] = "auto"


class WarmupConfig(_Steps):
    """Supervised, on every weight of a base model: how one that was made from configuration learns to speak."""

    algorithm: Literal["warmup"] = "warmup"
    rows_per_step: Amount = 32


def _is_one(processes: int) -> bool:
    return processes == 1


class _Adapting(_Steps):
    """What every stage has that trains an adapter. `lora` may be left out: then it is the parent's, or the default.

    `processes` share each step out in equal parts. One is not written, so that names stay what they were.
    """

    lora: Lora | None = None
    processes: Amount = Field(default=1, exclude_if=_is_one)


class SftConfig(_Adapting):
    """Supervised: the next token of what the selected runs said. `rows_per_step` rows make one step."""

    algorithm: Literal["sft"] = "sft"
    rows_per_step: Amount = 16


class DpoConfig(_Adapting):
    """Preferences: chosen over rejected, held to the weights at the start by `beta`."""

    algorithm: Literal["dpo"] = "dpo"
    pairs_per_step: Amount = 16
    beta: Number = "0.1"


class GrpoConfig(_Adapting):
    """Group-relative policy gradient from the log. `groups_per_step` groups make one batch, used for `passes` steps.

    `reference` is what the KL is taken against: the weights at the start, or the base. `staleness` bounds the mean
    distance in log-probability between the log and the weights at the start. `rows_per_pass` bounds memory, not a step.
    """

    algorithm: Literal["grpo"] = "grpo"
    backend: Literal["own", "trl"] = "own"
    groups_per_step: Amount = 4
    passes: Amount = 1
    epsilon: Number = "0.2"
    beta: Number = "0.04"
    aggregation: Aggregation = "grpo"
    max_tokens: Amount = 256
    reference: Literal["start", "base"] = "start"
    staleness: Number = "0.01"
    rows_per_pass: Amount = 32


StageConfig = WarmupConfig | SftConfig | DpoConfig | GrpoConfig
"""What a stage is asked for; `algorithm` says which."""

AnyStageConfig = Annotated[StageConfig, Field(discriminator="algorithm")]
_CONFIGS: TypeAdapter[StageConfig] = TypeAdapter(AnyStageConfig)


def stage_config_of(plain: Mapping[str, Any]) -> StageConfig:
    """The configuration that plain JSON stands for. Raises ValidationError."""
    return _CONFIGS.validate_json(json.dumps(plain))  # as JSON, which has no tuples


Measured = Annotated[str | None, Field(pattern=r"^-?\d+(\.\d+)?$")]
"""A measure of a step as a decimal string; None where the algorithm does not have it."""


class Metrics(FrozenModel):
    """What a step measured."""

    loss: Measured
    kl: Measured
    clip_fraction: Measured
    ratio: Measured
    reward: Measured


class CheckpointFile(FrozenModel):
    """One file of a checkpoint, and where its bytes are."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]*$", max_length=200)]
    blob: BlobAddress


class TrainingStarted(Event):
    """A stage began: its rows and its base fit each other. `base` is the base's digest, `upto` the dataset's position.

    `training` is made of dataset, base, parent and configuration. A stage that is begun again has a higher `attempt`.
    """

    type: Literal["TrainingStarted"] = "TrainingStarted"
    training: Name
    attempt: Annotated[int, Field(ge=1, le=1_000_000)]
    dataset: Digest
    upto: Count
    base: Digest
    parent: Digest | None
    config: AnyStageConfig


class TrainingProgressed(Event):
    """Where a stage stood at one of its steps."""

    type: Literal["TrainingProgressed"] = "TrainingProgressed"
    training: Name
    step: Amount
    of: Amount
    metrics: Metrics


class TrainingFailed(Event):
    """A stage ended without a checkpoint; `error` is the name of what went wrong, `message` its sentence."""

    type: Literal["TrainingFailed"] = "TrainingFailed"
    training: Name
    error: Name
    message: Annotated[str, Field(max_length=2000)]


class CheckpointSaved(Event):
    """Weights exist: a checkpoint, or the base model that a warm-up gave. One event says where any weights come from.

    `checkpoint` is the SHA-256 of the manifest; after a warm-up, of the base model's folder. `files` hold the manifest.
    """

    type: Literal["CheckpointSaved"] = "CheckpointSaved"
    checkpoint: Digest
    training: Name
    algorithm: Algorithm
    base: Digest
    parent: Digest | None
    dataset: Digest
    upto: Count
    manifest: BlobAddress
    files: Annotated[tuple[CheckpointFile, ...], Field(min_length=1)]


class CheckpointPublished(Event):
    """A checkpoint lies in a model store: as what, where, and the digest of what lies there."""

    type: Literal["CheckpointPublished"] = "CheckpointPublished"
    checkpoint: Digest
    form: Form | Literal["base"]
    place: Annotated[str, Field(min_length=1, max_length=2000)]
    digest: Digest
