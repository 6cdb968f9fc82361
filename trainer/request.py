"""Training requests as pure values. The stage configurations are defined with the log's events."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, Field, ValidationError

from eventlog.events.event import Count, Digest, FrozenModel
from eventlog.events.training import DpoConfig, GrpoConfig, Lora, SftConfig, WarmupConfig  # noqa: F401 Lora

from .errors import RequestUnreadable

Folder = Annotated[str, Field(min_length=1)]

Config = Annotated[SftConfig | DpoConfig | GrpoConfig, Field(discriminator="algorithm")]


class DatasetRef(FrozenModel):
    """A frozen dataset: its rows in a Parquet file, and its identity in the log."""

    path: Folder
    digest: Digest
    upto: Count


class ParentRef(FrozenModel):
    """The checkpoint to continue from: its folder, and its expected digest."""

    path: Folder
    digest: Digest


class TrainingRequest(FrozenModel):
    """One training run. `out` is a folder of checkpoints; the new checkpoint becomes `out/<digest>`.

    `base` is the folder of the base model, `base_digest` its expected digest (None: any).
    """

    dataset: DatasetRef
    base: Folder
    base_digest: Digest | None = None
    parent: ParentRef | None = None
    out: Folder
    config: Config


class WarmupRequest(FrozenModel):
    """One warm-up. `out` is a folder of base models; the new base model becomes `out/<digest>`."""

    dataset: DatasetRef
    base: Folder
    base_digest: Digest | None = None
    out: Folder
    config: WarmupConfig


class _Algorithm(BaseModel):
    algorithm: object = None


class _Asked(BaseModel):
    """The field that tells the kinds of requests apart."""

    config: _Algorithm = _Algorithm()


def read_request(path: Path) -> TrainingRequest | WarmupRequest:
    """Read a request. Raises RequestUnreadable."""
    try:
        content = path.read_bytes()
        is_warmup = _Asked.model_validate_json(content).config.algorithm == "warmup"
        return (WarmupRequest if is_warmup else TrainingRequest).model_validate_json(content)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise RequestUnreadable(path=path, actual=f"{first['msg']} at {where or 'the top'}") from error
    except OSError as error:
        raise RequestUnreadable(path=path, actual=error.strerror or str(error)) from error
