"""Bytes on disk for prompts, as the benchmark of the blobs counts them, in a project of its own."""

from __future__ import annotations

from benchmarks import blobs
from benchmarks.report import Target, at_least

from .server import Server

TARGETS: dict[str, Target] = {"disk: prompts whole as text / linked messages": at_least(blobs.TARGET)}


def bytes_on_disk(server: Server, runs: int) -> dict[str, float]:
    """Bytes and ratios of the prompts of so many runs of ten calls each."""
    server.project("disk")
    engine, owner = server.engine("disk"), server.owner("disk")
    found = blobs.bytes_on_disk(engine, owner, runs=runs)
    for each in (engine, owner):
        each.dispose()
    return {f"disk: {name}": value for name, value in found.items()}
