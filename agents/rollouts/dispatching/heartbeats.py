"""Which workers are lost, by the heartbeats that this process has read.

A worker is lost if its heartbeat stayed the same for a while in which the database could have received another one. The
time is measured by the clock of this process, so an outage or a jump of the server's clock makes no worker lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Heartbeats:
    """Last heartbeats of all workers, keyed by worker id. `server` changes when the server starts or has crashed."""

    server: str
    beats: Mapping[int, datetime]


@dataclass(frozen=True, slots=True)
class HeartbeatWatch:
    """Heartbeats read without a break up to `read_s`: each worker's last one, and when it was first read."""

    server: str = ""
    read_s: float = 0.0
    first_read: Mapping[int, tuple[datetime, float]] = field(default_factory=dict)

    def lost_workers(self, after_s: float) -> dict[int, datetime]:
        """Workers whose heartbeat was the same for this many seconds, each with that heartbeat."""
        return {worker: beat for worker, (beat, at) in self.first_read.items() if self.read_s - at >= after_s}


def watch_on(watch: HeartbeatWatch, read: Heartbeats, at_s: float, longest_gap_s: float) -> HeartbeatWatch:
    """The watch after a further reading at `at_s` seconds. It begins again if heartbeats may have been missed.

    They may if the server has started or crashed since the reading before, or that was over `longest_gap_s` ago.
    """
    is_unbroken = watch.server == read.server and at_s - watch.read_s <= longest_gap_s
    known = watch.first_read if is_unbroken else {}
    first_read = {
        worker: known[worker] if worker in known and known[worker][0] == beat else (beat, at_s)
        for worker, beat in read.beats.items()
    }
    return HeartbeatWatch(read.server, at_s, first_read)
