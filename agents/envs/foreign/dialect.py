"""Dialects: how a foreign site's API differs from the contract, as a frozen model written in JSON or TOML.

The defaults are tolerant: they try all known dialects and accept several names for one thing. A narrower dialect turns
surprises into errors.
"""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from eventlog.errors import first_fault

from ..contract import ADMIN_HEADER, INSTANCE_HEADER, Name, Seed, TaskText
from ..errors import BadDialect

Path_ = Annotated[str, Field(pattern=r"^/[^\s?#]*$")]
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
    page_url: Annotated[str, Field(pattern=r"^https?://[^/]+")] | None = None
    tasks: tuple[TaskText, ...] = ()
    paths: Paths = Paths()
    admin_header: Name = ADMIN_HEADER
    instance_header: Name = INSTANCE_HEADER
    headers: dict[str, str] = Field(default_factory=dict, repr=False)
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
    witnesses: tuple[Path_, ...] = ()

    @field_validator("unknown_task_reason")
    @classmethod
    def _is_pattern(cls, pattern: str | None) -> str | None:
        try:
            re.compile(pattern or "")
        except re.error as problem:
            raise ValueError(f"not a regular expression: {problem}") from problem
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
    """Read a dialect from a file: TOML if its name ends in `.toml`, else JSON. Raises BadDialect."""
    try:
        text = file.read_text()
        facts = tomllib.loads(text) if file.suffix == ".toml" else json.loads(text)
        return Dialect.model_validate(facts)
    except OSError as problem:
        raise BadDialect(file=file, actual=problem.strerror, expected="a file that can be read") from problem
    except ValidationError as problem:
        raise BadDialect(file=file, actual=first_fault(problem), expected="the fields of a dialect") from problem
    except (ValueError, RecursionError) as problem:
        raise BadDialect(file=file, actual=problem, expected="JSON, or TOML in a file named .toml") from problem
