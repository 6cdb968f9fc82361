"""Training: the configuration of a stage, its progress, and the checkpoint it saved.

Stage configurations are defined here because events contain them. Non-integer numbers are decimal strings, so that
they can be hashed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, TypeAdapter

from .event import BlobAddress, Count, Digest, Event, FrozenModel, Name


def _normal(text: str) -> str:
    """Canonical form of a decimal number: no exponent, no trailing zeros. Raises ValueError."""
    try:
        number = Decimal(text)
    except InvalidOperation as error:
        raise ValueError(f"{text!r} is not a decimal number") from error
    if not number.is_finite() or number < 0:
        raise ValueError(f"{text!r} is out of range; expected a finite number of at least 0")
    return format(number.normalize(), "f")


Number = Annotated[str, AfterValidator(_normal)]
"""A non-negative number as a decimal string, in its shortest form without an exponent."""

Amount = Annotated[int, Field(ge=1, le=2**31)]

Amount64 = Annotated[int, Field(ge=1, le=2**53 - 1)]

Algorithm = Literal["warmup", "sft", "dpo", "grpo"]
"""The training algorithm. A warm-up produces a base model, the others an adapter for one."""

Aggregation = Literal["grpo", "bnpo", "dr_grpo"]
"""How the token losses are aggregated. grpo: the mean over runs of each run's mean over its tokens. bnpo: the mean over
all tokens of the step. dr_grpo: the sum over all tokens, divided by runs times `max_tokens`. The names are TRL's."""

Form = Literal["peft", "gguf-adapter", "gguf-f32", "gguf-f16", "gguf-q8_0"]
"""The file format in which a checkpoint or a base model is exported for serving. A base has the last three."""


class Lora(FrozenModel):
    """The shape of a LoRA adapter. `targets` are names of linear layers; "all-linear" includes a mixture's experts."""

    rank: Amount = 8
    alpha: Amount = 16
    targets: tuple[str, ...] | Literal["all-linear"] = "all-linear"


class _Steps(FrozenModel):
    """The fields of every stage. One step is one update of the weights. `device` "auto" uses CUDA if available.

    `checkpointing` recomputes activations in the backward pass, for a third more time and a fraction of the memory.
    """

    steps: Amount
    learning_rate: Number
    seed: Count = 0
    threads: Amount = 1
    device: Literal["auto", "cpu", "cuda"] = "auto"
    checkpointing: Annotated[bool, Field(exclude_if=lambda is_on: not is_on)] = False


_RowsPerPass = Annotated[Amount | None, Field(exclude_if=lambda rows: rows is None)]


class WarmupConfig(_Steps):
    """Supervised training of all weights of a base model, such as a randomly initialised one.

    `rows_per_pass` is the most rows that go through the model at once; None: as many as the free memory allows.
    """

    algorithm: Literal["warmup"] = "warmup"
    rows_per_step: Amount = 32
    rows_per_pass: _RowsPerPass = None


def _is_one(processes: int) -> bool:
    return processes == 1


class _Adapting(_Steps):
    """The fields of every stage that trains an adapter. `lora` None means that of the parent, or the default.

    `processes` divide each step into equal parts. A value of 1 is omitted when stored, so stage names stay the same.
    With `sharded` each of them holds a part of the weights instead of all.
    """

    lora: Lora | None = None
    processes: Amount = Field(default=1, exclude_if=_is_one)
    sharded: Annotated[bool, Field(exclude_if=lambda is_on: not is_on)] = False


class SftConfig(_Adapting):
    """Supervised fine-tuning on the completions of the selected runs, `rows_per_step` rows in each step.

    `rows_per_pass` is that of WarmupConfig.
    """

    algorithm: Literal["sft"] = "sft"
    rows_per_step: Amount = 16
    rows_per_pass: _RowsPerPass = None


class DpoConfig(_Adapting):
    """Preference optimisation: chosen over rejected runs; `beta` keeps the policy close to the starting weights.

    `rows_per_pass` is that of WarmupConfig; a pair is two rows.
    """

    algorithm: Literal["dpo"] = "dpo"
    pairs_per_step: Amount = 16
    rows_per_pass: _RowsPerPass = None
    beta: Number = "0.1"


class GrpoConfig(_Adapting):
    """Group-relative policy gradient on logged runs. `groups_per_step` groups form one batch, used for `passes` steps.

    `reference` selects the KL reference: the starting weights or the base. `staleness` bounds the mean distance in
    log-probability between the log and the starting weights, `outside` the share of tokens whose ratio at the start is
    outside 1 - epsilon to 1 + epsilon. `rows_per_pass` is the most rows that go through the model at once.
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
    outside: Annotated[Number, Field(exclude_if=lambda share: share == "0.01")] = "0.01"
    rows_per_pass: Amount = 32


StageConfig = WarmupConfig | SftConfig | DpoConfig | GrpoConfig
"""The configuration of a stage, discriminated by `algorithm`."""

AnyStageConfig = Annotated[StageConfig, Field(discriminator="algorithm")]
_CONFIGS: TypeAdapter[StageConfig] = TypeAdapter(AnyStageConfig)


def stage_config_of(plain: Mapping[str, Any]) -> StageConfig:
    """Parse a stage configuration from plain JSON. Raises ValidationError."""
    return _CONFIGS.validate_json(json.dumps(plain))  # as JSON, which has no tuples


Measured = Annotated[str | None, Field(pattern=r"^-?\d+(\.\d+)?$")]
"""A metric of a step as a decimal string; None if the algorithm does not have it."""


class Metrics(FrozenModel):
    """The metrics of one step."""

    loss: Measured
    kl: Measured
    clip_fraction: Measured
    ratio: Measured
    reward: Measured


class CheckpointFile(FrozenModel):
    """One file of a checkpoint, and the address of its bytes."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]*$", max_length=200)]
    blob: BlobAddress


class TrainingStarted(Event):
    """A stage started, after its rows were checked against its base. `upto` is the dataset's position.

    The name `training` is derived from dataset, base (digest), parent and configuration. Each restart increments
    `attempt`.
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
    """Progress of a stage: `step` of `of` steps, with its metrics."""

    type: Literal["TrainingProgressed"] = "TrainingProgressed"
    training: Name
    step: Amount
    of: Amount
    metrics: Metrics


class TrainingFailed(Event):
    """A stage ended without a checkpoint. `error` is the class of the error, `message` its text."""

    type: Literal["TrainingFailed"] = "TrainingFailed"
    training: Name
    error: Name
    message: Annotated[str, Field(max_length=2000)]


class CheckpointSaved(Event):
    """A stage saved weights: a checkpoint, or the base model of a warm-up, with its complete provenance.

    `checkpoint` is the SHA-256 of the manifest; after a warm-up, of the base model's folder. `files` includes the
    manifest.
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


class BaseAdded(Event):
    """A base model from outside was made a base folder: its digest, what it is, and where it came from.

    `source` is the package, file or folder it was read from, `source_digest` the SHA-256 of that file or folder.
    `licence` is an SPDX identifier; None if the source does not state one.
    """

    type: Literal["BaseAdded"] = "BaseAdded"
    base: Digest
    name: Name
    architecture: Annotated[str, Field(min_length=1, max_length=100)]
    parameters: Amount64
    vocabulary: Amount
    longest: Amount
    tokenizer: Digest
    chat_template: Digest
    source: Annotated[str, Field(min_length=1, max_length=500)]
    source_digest: Digest
    licence: Annotated[str | None, Field(max_length=100)] = None


class CheckpointPublished(Event):
    """A checkpoint was published to a model store: its format, place, and the digest of the published files."""

    type: Literal["CheckpointPublished"] = "CheckpointPublished"
    checkpoint: Digest
    form: Form | Literal["base"]
    place: Annotated[str, Field(min_length=1, max_length=2000)]
    digest: Digest
