"""Sampling seeds of runs. Pure."""

from __future__ import annotations

from eventlog.chain import digest
from eventlog.events import Spec


def drawing_seed(spec: Spec) -> int:
    """Sampling seed of a run's model (31 bits): different for each spec, the same each time it is played."""
    return int.from_bytes(digest([spec.sweep, spec.spec_id])[:4]) >> 1
