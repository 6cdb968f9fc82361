"""Dialects: how a foreign site's API differs from the contract, as a frozen model written in JSON or TOML.

The defaults are tolerant: they try all known dialects and accept several names for one thing. A narrower dialect turns
surprises into errors.
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from ...edited_files import locate_fault, read_edited
from ..addresses import check_path
from ..contract import ADMIN_HEADER, INSTANCE_HEADER, Name, Seed, TaskText
from ..errors import BadDialect
from .patterns import searcher_of

MOST_BYTES: Final = 256 * 2**10
"""The most bytes of a file with a dialect."""

Path_ = Annotated[str, Field(pattern=r"^/[^\s?#]*$"), AfterValidator(check_path)]
WitnessPath = Annotated[str, Field(pattern=r"^/[^\s#]*$"), AfterValidator(check_path)]
HeaderName = Annotated[str, Field(pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")]
HeaderValue = Annotated[str, Field(pattern=r"^[\t\x20-\x7e]*$")]
"""Characters that HTTP allows in a header: a line break would begin another header, or another request."""

Names = Annotated[tuple[Name, ...], Field(min_length=1)]
Seeding = Literal["reset", "seed", "either", "none"]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Paths(_Part):
    """Paths of the calls; None for a call that the site does not have."""

    health: Path_ = "/__env__/health"
    reset: Path_ | None = "/__env__/reset"
    seed: Path_ | None = "/__env__/seed"
    oracle: Path_ = "/__env__/oracle"
    state: Path_ = "/__env__/state"
    mutations: Path_ | None = "/__env__/mutations"
    close: Path_ | None = None


class MutationFields(_Part):
    """Field names of a change; the first one present in a row is read.

    `mine` are operations that the site itself records, such as a reset; they are left out, because no agent did them.
    """

    listed: Names = ("mutations",)
    id: Names = ("id",)
    operation: Names = ("operation", "op")
    target_type: Names = ("target_type",)
    target_id: Names = ("target_id",)
    payload: Names = ("payload",)
    at: Names = ("at", "ts", "occurred_at")
    mine: tuple[Name, ...] = ("env_reset",)


class Dialect(_Part):
    """Dialect of one site.

    `seeding` is how seeds are sent: in the body of `reset`, by a separate call (`seed`), by that call if it exists and
    else by the reset (`either`), or `none`: then only `only_seed` is available, with which the site was started.
    `since_filters` is true if the site's `since` leaves out ids up to it. `volatile` are names of fields, at any depth
    of a state, that change by themselves. `witnesses` are pages whose text is added to the fingerprint, for a site
    whose state does not tell seeds apart. `headers` are sent with every call, also with the agent's.
    """

    site: Name | None = None
    page_url: Annotated[str, Field(pattern=r"^https?://[^/\\\s]+[^\\\s]*$")] | None = None
    tasks: tuple[TaskText, ...] = ()
    paths: Paths = Paths()
    admin_header: HeaderName = ADMIN_HEADER
    instance_header: HeaderName = INSTANCE_HEADER
    headers: dict[HeaderName, HeaderValue] = Field(default_factory=dict, repr=False)
    one_instance: bool = True
    seeding: Seeding = "either"
    only_seed: Seed | None = None
    refused: Annotated[tuple[int, ...], Field(min_length=1)] = (401, 403)
    unknown_task_status: tuple[int, ...] = (404,)
    unknown_task_reason: str | None = r"(?i)^(no oracle registered|unknown task)"
    row: MutationFields = MutationFields()
    since_filters: bool = False
    volatile: tuple[Name, ...] = (
        "now",
        "boot_time",
        "uptime",
        "ts",
        "at",
        "occurred_at",
        "created_at",
        "updated_at",
        "seed",
    )
    witnesses: tuple[WitnessPath, ...] = ()

    @field_validator("unknown_task_reason")
    @classmethod
    def _is_pattern(cls, pattern: str | None) -> str | None:
        searcher_of(pattern or "")
        return pattern

    @model_validator(mode="after")
    def _hangs_together(self) -> Self:
        if (self.seeding == "none") != (self.only_seed is not None):
            raise ValueError("only_seed must be given with the seeding `none`, and only with it")
        lacks = {"reset": self.paths.reset, "seed": self.paths.seed}.get(self.seeding, "/")
        if lacks is None:
            raise ValueError(f"the seeding `{self.seeding}` needs a path of that name")
        if not self.one_instance and self.seeding != "reset":
            raise ValueError("a site with many instances needs the seeding `reset`")
        return self


def read_dialect(file: Path) -> Dialect:
    """Read a dialect from a file: TOML if its name ends in `.toml`, else JSON. Raises BadDialect, FileTooLarge."""
    is_toml, text = file.suffix == ".toml", ""
    try:
        text = read_edited(file, MOST_BYTES)
        return Dialect.model_validate(tomllib.loads(text) if is_toml else json.loads(text))
    except OSError as problem:
        raise BadDialect(file=file, actual=problem.strerror, expected="a file that can be read") from problem
    except ValidationError as problem:
        fault = locate_fault(problem, text, is_toml=is_toml)
        raise BadDialect(file=file, actual=fault, expected="the fields of a dialect") from problem
    except (ValueError, RecursionError) as problem:
        raise BadDialect(file=file, actual=problem, expected="JSON, or TOML in a file named .toml") from problem
