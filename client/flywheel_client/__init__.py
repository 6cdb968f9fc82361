"""The client of a Flywheel server: record runs of your own agents, and read what became of them."""

from __future__ import annotations

from .asynchronous import AsyncClient, connect_async
from .client import Client, connect
from .connection import ApiError, Unreachable
from .listing import Listing
from .plots import Plot
from .recording import ActiveRun
from .records import Champion, Dataset, Event, Piece, Reward, Run, Slice, Verdict

__all__ = [
    "ActiveRun",
    "ApiError",
    "AsyncClient",
    "Champion",
    "Client",
    "Dataset",
    "Event",
    "Listing",
    "Piece",
    "Plot",
    "Reward",
    "Run",
    "Slice",
    "Unreachable",
    "Verdict",
    "connect",
    "connect_async",
]
