"""Environments: probed, and admitted on the strength of a probe that nothing failed in."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from .event import Count, Digest, Event, FrozenModel, Name

ProbeOutcome = Literal["passed", "failed", "skipped"]

Detail = Annotated[str, Field(max_length=500)]
"""A sentence for people; never what an agent read or wrote."""


class ProbeResult(FrozenModel):
    """What one probe found, and why; `skipped` means that the question does not arise there."""

    name: Name
    outcome: ProbeOutcome
    detail: Detail


class StartFingerprint(FrozenModel):
    """The fingerprint of an instance that was just made from a seed."""

    env_seed: Count
    fingerprint: Digest


class EnvironmentProbed(Event):
    """What every probe found of an environment; `url` is None where we started it ourselves.

    `tasks_digest` is over the tasks it graded then, with their instructions and clusters.
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
    """From here on its runs may be learned from and judged by; `probe` is the position of the probe it rests on."""

    type: Literal["EnvironmentAdmitted"] = "EnvironmentAdmitted"
    environment: Name
    probe: Count
    tasks_digest: Digest
    by: Name
    reason: Name
