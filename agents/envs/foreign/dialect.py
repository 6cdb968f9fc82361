"""How a foreign site says what the contract asks: a frozen description that a person can write as JSON or TOML.

Every field has a default, and the defaults are tolerant: they try what the known dialects do, and take several names
for one thing. A narrower description makes a surprise an error.
"""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from ..contract import ADMIN_HEADER, INSTANCE_HEADER, Name, Seed, TaskText
from ..errors import BadDialect

Path_ = Annotated[str, Field(pattern=r"^/[^\s?#]*$")]
Names = Annotated[tuple[Name, ...], Field(min_length=1)]
Seeding = Literal["reset", "seed", "either", "none"]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Paths(_Part):
    """Where each call goes; None for a call that the site does not have."""

    health: Path_ = "/__env__/health"
    reset: Path_ | None = "/__env__/reset"
    seed: Path_ | None = "/__env__/seed"
    oracle: Path_ = "/__env__/oracle"
    state: Path_ = "/__env__/state"
    mutations: Path_ | None = "/__env__/mutations"
    close: Path_ | None = None


class MutationFields(_Part):
    """The names of a change's fields; the first one that a row has is read.

    `mine` are operations that the site itself writes down, such as a reset: no agent did them, so they are left out.
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
    """One site's way of speaking.

    `seeding`: a body to `reset`, a call of its own (`seed`), that one where it exists and else the reset (`either`),
    or `none`: then only `only_seed` can be asked for, the one that the site was started with. `since_filters` says
    that the site's `since` may be trusted to leave out ids up to it. `volatile` are names of fields, at any depth of a
    state, that change by themselves. `witnesses` are pages whose text goes into the fingerprint besides, for a site
    whose state says too little to tell seeds apart. `headers` go on every call, the agent's too.
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
            raise ValueError(f"no regular expression: {problem}") from problem
        return pattern

    @model_validator(mode="after")
    def _hangs_together(self) -> Self:
        if (self.seeding == "none") != (self.only_seed is not None):
            raise ValueError("only_seed says which seed a site with the seeding `none` was started with")
        lacks = {"reset": self.paths.reset, "seed": self.paths.seed}.get(self.seeding, "/")
        if lacks is None:
            raise ValueError(f"the seeding `{self.seeding}` needs a path of that name")
        if not self.one_instance and self.seeding != "reset":
            raise ValueError("a site of many instances mints them at its reset")
        return self


def read_dialect(file: Path) -> Dialect:
    """The dialect in a file, TOML if it is named so and else JSON. Raises BadDialect."""
    try:
        text = file.read_text()
        facts = tomllib.loads(text) if file.suffix == ".toml" else json.loads(text)
        return Dialect.model_validate(facts)
    except OSError as problem:
        raise BadDialect(file=file, actual=problem.strerror, expected="a file that can be read") from problem
    except ValidationError as problem:
        first = problem.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "it"
        raise BadDialect(file=file, actual=f"{where}: {first['msg']}", expected="the fields of a dialect") from problem
    except (ValueError, RecursionError) as problem:
        raise BadDialect(file=file, actual=problem, expected="JSON, or TOML in a file named .toml") from problem
