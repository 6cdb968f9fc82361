"""What a worker tells of its work, as sentences or as JSON lines."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

import typer

from agents.rollouts.dispatching.durable import Notice

from .output import TerminalReporter

_TEXTS = {
    "added": "added {count} planned jobs to the queue",
    "rescued": "{run}: its worker was lost; put back in the queue",
    "failed": "{run}: failed, will be retried: {error}",
    "parked": "{run}: failed too often, parked: {error}",
    "timed_out": "{run}: took too long, recorded as missing",
    "interrupted": "{run}: the connection to the database was lost; put back in the queue",
    "unreachable": "the database does not answer; waiting up to {outage_s:g} s: {error}",
    "reached": "the database answers again",
    "unclosed": "{count} instances could not be closed, so their site may keep them",
    "unlearned": "{sweep}: ended, but learning from it failed: {error}",
    "forged": "nothing is learned from ended sweeps until this is mended: {error}",
    "ungraded": "none of {count} runs could be graded",
    "again": "put {count} parked jobs back in the queue",
    "started": "{roles} for {site}; Ctrl-C stops it after the current runs",
    "stopping": "stopping after the current runs, Ctrl-C again ends them at once; run the same command again to go on",
    "deployment": "{said}",
    "stopped": "stopped; {open} jobs are still waiting or running elsewhere, {parked} are parked",
}
TellNotice = Callable[..., None]
"""Tells what happened, by its name with its facts."""


def tell_notice(tell: TellNotice, notice: Notice) -> None:
    """Tell a notice with the facts of its job."""
    facts = dict(notice.facts)
    if notice.ticket is None:
        facts["count"] = notice.count
    else:
        facts = {"run": notice.ticket.spec, "sweep": notice.ticket.sweep, "state_key": notice.ticket.state_key} | facts
    tell(notice.kind, **facts)


@dataclass
class PlayedCount:
    """How the runs ended that this worker played. Runs that another process ended count as none."""

    graded: int = 0
    missing: int = 0

    @property
    def is_in_vain(self) -> bool:
        """True if runs were played and none was graded."""
        return self.missing > self.graded == 0

    def count(self, notice: Notice) -> Notice:
        """Count what the notice says, and return it."""
        self.graded += notice.kind == "played" and "passed" in notice.facts
        is_missing = notice.kind == "played" and notice.facts.get("status") == "missing"
        self.missing += is_missing or notice.kind == "timed_out"
        return notice


def notice_as_json(event: str, **facts: object) -> None:
    """Print what happened as one JSON line."""
    typer.echo(json.dumps({"event": event, **facts}, ensure_ascii=False))


def notice_as_text(event: str, **facts: object) -> None:
    """Print what happened as a sentence."""
    if event != "played":
        TerminalReporter().say(_TEXTS[event].format(**facts))
        return
    reason = facts.get("reason")
    passed = {True: ", passed", False: ", failed its oracle"}.get(bool(facts["passed"])) if "passed" in facts else ""
    TerminalReporter().say(f"{facts['run']}: {facts['status']}{f', {reason}' if reason else ''}{passed}")
