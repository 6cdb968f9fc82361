"""Environments: probed, and admitted on the basis of a report in which no probe failed."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from .event import Count, Digest, Event, FrozenModel, Name
from .suites import SuiteName

ProbeOutcome = Literal["passed", "failed", "skipped"]

Detail = Annotated[str, Field(max_length=500)]
"""A sentence for people; never text that an agent read or wrote."""


PageUrl = Annotated[str, Field(min_length=1, max_length=2000, pattern=r"^https?://")]
"""An address over HTTP; without user, password and query, because the log is read by many."""

TokenVariable = Annotated[str, Field(pattern=r"^FLYWHEEL_ENV_[A-Z0-9_]+$", max_length=200)]
"""The environment variable that holds a site's admin token. Only names of this form are read, so that no registration
can send another secret to a site."""


class ProbeResult(FrozenModel):
    """The outcome of one probe, and why; `skipped` means that the probe does not apply to the environment."""

    name: Name
    outcome: ProbeOutcome
    detail: Detail


class StartFingerprint(FrozenModel):
    """The fingerprint of an instance's start state, just after it was made from a seed."""

    env_seed: Count
    fingerprint: Digest


class EnvironmentProbed(Event):
    """The results of all probes of an environment. `url` is None if the platform started the site itself.

    `tasks_digest` is over the tasks that the environment graded then, with their instructions and clusters. The right
    answer of the tasks in `alike` is the same at every seed.
    """

    type: Literal["EnvironmentProbed"] = "EnvironmentProbed"
    environment: Name
    url: Annotated[str, Field(min_length=1, max_length=2000)] | None
    tasks: tuple[Name, ...]
    tasks_digest: Digest
    probes: Annotated[tuple[ProbeResult, ...], Field(min_length=1)]
    seeds: Annotated[tuple[Count, ...], Field(min_length=1)]
    rng_seed: Count
    fingerprints: tuple[StartFingerprint, ...]
    alike: Annotated[tuple[Name, ...], Field(exclude_if=lambda alike: not alike)] = ()


class EnvironmentAdmitted(Event):
    """From this position on, the environment's runs may be used for learning and evaluation.

    `probe` is the position of the EnvironmentProbed event that justifies it.
    """

    type: Literal["EnvironmentAdmitted"] = "EnvironmentAdmitted"
    environment: Name
    probe: Count
    tasks_digest: Digest
    by: Name
    reason: Name


_VariableName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=200)]


class RegisteredPool(FrozenModel):
    """One command line of which a pool starts processes, at most so many at a time.

    In its words and in the texts of its variables `{port}` and `{seed}` are replaced. A text of the form
    `$FLYWHEEL_ENV_...` names a variable that holds the text, so that no secret is recorded.
    """

    words: Annotated[tuple[Annotated[str, Field(min_length=1, max_length=2_000)], ...], Field(min_length=1)]
    variables: tuple[tuple[_VariableName, Annotated[str, Field(max_length=2_000)]], ...] = ()
    processes: Annotated[int, Field(ge=1, le=1_000)] = 1


class EnvironmentRegistered(Event):
    """An environment's address, its dialect and its suite, recorded so that its name is enough.

    `token` names the variable of the admin token; the token itself is never recorded. `dialect` is a dialect as
    canonical JSON, in which values of headers name variables too. A later registration of the same name replaces this
    one. `admin_url` and `admin_port` are None if pages and admin API share an address. An environment with a `pool` has
    no address: its processes are started by whoever plays it.
    """

    type: Literal["EnvironmentRegistered"] = "EnvironmentRegistered"
    environment: Name
    token: TokenVariable
    url: PageUrl | None = None
    admin_url: PageUrl | None = None
    sandbox: Name | None = None
    port: Count | None = None
    admin_port: Count | None = None
    dialect: Annotated[str, Field(max_length=300_000)] | None = None
    suite: SuiteName | None = None
    pool: Annotated[RegisteredPool | None, Field(exclude_if=lambda pool: pool is None)] = None
