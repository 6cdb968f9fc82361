"""Bytes on disk for prompts, measured by the blob benchmark in a separate project."""

from __future__ import annotations

from benchmarks import blobs
from benchmarks.report import Target, at_least

from .server import Server

TARGETS: dict[str, Target] = {"disk: prompts whole as text / linked messages": at_least(blobs.TARGET)}


def bytes_on_disk(server: Server, runs: int) -> dict[str, float]:
    """Bytes and ratios for the prompts of `runs` runs with ten calls each."""
    server.project("disk")
    engine, owner = server.engine("disk"), server.owner("disk")
    found = blobs.bytes_on_disk(engine, owner, runs=runs)
    for each in (engine, owner):
        each.dispose()
    return {f"disk: {name}": value for name, value in found.items()}
