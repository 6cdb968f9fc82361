"""What a training run is asked for. Pure values.

Numbers that are no integers are decimal strings, so that a digest may be taken over them.
"""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, Field, ValidationError

from eventlog.events.event import Count, Digest, FrozenModel

from .errors import RequestUnreadable
from .objective import Aggregation


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


Folder = Annotated[str, Field(min_length=1)]


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


class _Adapting(_Steps):
    """What every stage has that trains an adapter. `lora` may be left out: then it is the parent's, or the default."""

    lora: Lora | None = None


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


Config = Annotated[SftConfig | DpoConfig | GrpoConfig, Field(discriminator="algorithm")]


class DatasetRef(FrozenModel):
    """A frozen dataset: its rows in a Parquet file, and what the log calls it."""

    path: Folder
    digest: Digest
    upto: Count


class ParentRef(FrozenModel):
    """The checkpoint to go on from: its folder, and the digest that the folder must have."""

    path: Folder
    digest: Digest


class Request(FrozenModel):
    """One training run. `out` is a folder of checkpoints; the new one becomes `out/<digest>`.

    `base` is the folder of the base model, `base_digest` what it must be (None: whatever it is).
    """

    dataset: DatasetRef
    base: Folder
    base_digest: Digest | None = None
    parent: ParentRef | None = None
    out: Folder
    config: Config


class WarmupRequest(FrozenModel):
    """One warm-up. `out` is a folder of base models; the new one becomes `out/<digest>`."""

    dataset: DatasetRef
    base: Folder
    base_digest: Digest | None = None
    out: Folder
    config: WarmupConfig


class _Algorithm(BaseModel):
    algorithm: object = None


class _Asked(BaseModel):
    """The one thing that says which request it is."""

    config: _Algorithm = _Algorithm()


def read_request(path: Path) -> Request | WarmupRequest:
    """Read a request. Raises RequestUnreadable."""
    try:
        content = path.read_bytes()
        is_warmup = _Asked.model_validate_json(content).config.algorithm == "warmup"
        return (WarmupRequest if is_warmup else Request).model_validate_json(content)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise RequestUnreadable(path=path, actual=f"{first['msg']} at {where or 'the top'}") from error
    except OSError as error:
        raise RequestUnreadable(path=path, actual=error.strerror or str(error)) from error
