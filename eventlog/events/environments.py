"""Environments: probed, and admitted on the basis of a report in which no probe failed."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from .event import Count, Digest, Event, FrozenModel, Name

ProbeOutcome = Literal["passed", "failed", "skipped"]

Detail = Annotated[str, Field(max_length=500)]
"""A sentence for people; never text that an agent read or wrote."""


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

    `tasks_digest` is over the tasks that the environment graded then, with their instructions and clusters.
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
