"""What may be appended over HTTP: runs of agents that are not ours, their rewards, and prices. Pure.

Whatever the controller, the gate or an operator decides by is their own: a run that a caller records can be read,
clustered and trained on, but no event from outside changes how one of ours went, what memory holds, or who is champion.
"""

from __future__ import annotations

from collections.abc import Sequence

from eventlog.events import AnyEvent, InstanceReset, RewardGraded, RunFinished, RunMissing, RunStarted, StepTaken
from projections.runs import OUTSIDE

from .errors import ForeignRunName, ForeignStream, ReservedEvent

RESERVED = {
    "EnvironmentProbed": "`flywheel env probe`",
    "EnvironmentAdmitted": "`flywheel env probe`",
    "SweepPlanned": "`flywheel run` or `flywheel rollout sweep`",
    "SweepEnded": "`flywheel run` or `flywheel rollout sweep`",
    "JudgeOpined": "`flywheel runs grade --judge`",
    "RewriteProposed": "`flywheel run`",
    "RewriteWon": "`flywheel run`",
    "RewriteLost": "`flywheel run`",
    "DatasetFrozen": "`flywheel dataset build`",
    "SliceRegistered": "`flywheel dataset slice`",
    "BenchmarkFrozen": "`flywheel run`",
    "EvaluationOpened": "`flywheel run` or `flywheel gate run`",
    "VerdictReached": "`flywheel run` or `flywheel gate run`",
    "ChampionPointed": "a verdict, `flywheel champion point` or `flywheel champion back`",
    "MemoryQuarantined": "`flywheel champion back`",
    "RunsWithdrawn": "`flywheel runs withdraw`",
    "SubjectErased": "`flywheel erase`",
    "TokenIssued": "`flywheel token issue`",
    "TokenRevoked": "`flywheel token revoke`",
}
"""What is not taken over HTTP, and how it comes about."""

PRICES = "prices"
Names = tuple[tuple[str, str], ...]


def check_foreign_events(stream: str, events: Sequence[AnyEvent]) -> None:
    """Whether these may come from outside into this stream. Raises ReservedEvent, ForeignRunName, ForeignStream."""
    for event in events:
        if event.type in RESERVED:
            raise ReservedEvent(actual=event.type, expected=RESERVED[event.type])
        expected = _stream_of(event)
        if stream != expected:
            raise ForeignStream(type=event.type, actual=stream, expected=expected)


def _stream_of(event: AnyEvent) -> str:
    match event:
        case RunStarted() | InstanceReset() | StepTaken() | RunFinished() | RunMissing() | RewardGraded():
            for what, name in _names(event):
                if not name.startswith(OUTSIDE):
                    raise ForeignRunName(what=what, actual=name, expected=OUTSIDE)
            if isinstance(event, RunStarted) and (event.arm is not None or event.spec.spec_id != event.run):
                raise ReservedEvent(
                    actual="Arm runs, and runs under another spec's name,", expected="`flywheel gate run`"
                )
            return f"run/{event.run}"
        case _:
            return PRICES


def _names(event: RunStarted | InstanceReset | StepTaken | RunFinished | RunMissing | RewardGraded) -> Names:
    """What an event of a run goes by: as a sibling in a group of ours it would say how that group's runs began."""
    match event:
        case RunStarted():
            return ("run", event.run), ("group", event.spec.group_id), ("sweep", event.spec.sweep)
        case InstanceReset() | RunMissing() | RewardGraded():
            return ("run", event.run), ("group", event.group)
        case _:
            return (("run", event.run),)
