"""Events that may be appended over HTTP: runs of agents that are not ours, their rewards, and prices. Pure.

Whatever the controller, the gate or an operator decides by is their own: a run that a caller records can be read,
clustered and trained on, but no event from outside changes how one of ours went, what memory holds, or who is champion.
Prices change what ours cost from then on, so they need the role of an operator.
"""

from __future__ import annotations

from collections.abc import Sequence

from eventlog.events import (
    AnyEvent,
    InstanceReset,
    ModelCalled,
    PriceBookSet,
    RewardGraded,
    RunFinished,
    RunMissing,
    RunStarted,
    StepTaken,
)
from projections.access import TokenState
from projections.runs import OUTSIDE

from .errors import ForeignRunName, ForeignStream, ReservedEvent
from .roles import EVENTS, check_role

_WAYS = {
    "EnvironmentProbed": "`flywheel env probe`",
    "EnvironmentAdmitted": "`flywheel env probe`",
    "EnvironmentRegistered": "`flywheel env add`",
    "SuiteRegistered": "`flywheel suite add`",
    "SweepPlanned": "`flywheel run` or `flywheel rollout sweep`",
    "SweepEnded": "`flywheel run` or `flywheel rollout sweep`",
    "SpansKept": "`POST /v1/traces`",
    "JudgeOpined": "`flywheel runs grade --judge`",
    "RewriteProposed": "`flywheel run`",
    "RewriteWon": "`flywheel run`",
    "RewriteLost": "`flywheel run`",
    "DatasetFrozen": "`flywheel dataset build`",
    "SliceRegistered": "`flywheel dataset slice`",
    "BaseAdded": "`flywheel base add`",
    "BenchmarkFrozen": "`flywheel run`",
    "EvaluationOpened": "`flywheel run` or `flywheel gate run`",
    "EvaluationLooked": "`flywheel run` or `flywheel gate run`",
    "AlphaReturned": "`flywheel run` or `flywheel gate run`",
    "SealedInspected": "`flywheel gate explain EVALUATION --spend`",
    "VerdictReached": "`flywheel run` or `flywheel gate run`",
    "ChampionPointed": "a verdict, `flywheel champion point` or `flywheel champion back`",
    "ArtifactDeployed": "`flywheel serve --model` or `flywheel worker --roles reactor`",
    "DeploymentFailed": "`flywheel serve --model` or `flywheel worker --roles reactor`",
    "MemoryQuarantined": "`flywheel champion back`",
    "RunRequested": "`POST /v1/predict`",
    "RunCancelled": "`POST /v1/predict/{run}/cancel`",
    "RunTermsSet": "`POST /v1/predict`",
    "RunsWithdrawn": "`flywheel runs withdraw`",
    "EventsDisowned": "`flywheel log disown`",
    "LoopOpened": "`flywheel delegate run`",
    "EscalationAnswered": "`flywheel delegate answer`",
    "SkillSaved": "`flywheel skills import`",
    "SubjectErased": "`flywheel erase`",
    "TokenIssued": "`flywheel token issue`",
    "TokenRevoked": "`flywheel token revoke`",
    "WebhookAdded": "`flywheel webhook add`",
    "WebhookRemoved": "`flywheel webhook remove`",
    "WebhookAttempted": "`flywheel serve`",
}
"""How an event that is not taken over HTTP comes about, where one command appends it."""

PRICES = "prices"
Names = tuple[tuple[str, str], ...]


def check_foreign_events(token: TokenState, stream: str, events: Sequence[AnyEvent]) -> None:
    """Check that a token's holder may append these to this stream.

    Raises ReservedEvent, RoleTooLow, ForeignRunName, ForeignStream.
    """
    for event in events:
        least = EVENTS.get(event.type)
        if least is None:
            raise ReservedEvent(actual=event.type, expected=_WAYS.get(event.type, "a command that appends them itself"))
        check_role(token, least, f"append {event.type} events")
        expected = _stream_of(event)
        if stream != expected:
            raise ForeignStream(type=event.type, actual=stream, expected=expected)


def _stream_of(event: AnyEvent) -> str:
    match event:
        case (
            RunStarted() | InstanceReset() | StepTaken() | ModelCalled() | RunFinished() | RunMissing() | RewardGraded()
        ):
            for what, name in _names(event):
                if not name.startswith(OUTSIDE):
                    raise ForeignRunName(what=what, actual=name, expected=OUTSIDE)
            if isinstance(event, RunStarted) and (event.arm is not None or event.spec.spec_id != event.run):
                raise ReservedEvent(
                    actual="Arm runs, and runs under another spec's name,", expected="`flywheel gate run`"
                )
            return f"run/{event.run}"
        case PriceBookSet():
            return PRICES
        case _:
            raise ReservedEvent(actual=event.type, expected="a stream that such events from outside belong to")


def _names(
    event: RunStarted | InstanceReset | StepTaken | ModelCalled | RunFinished | RunMissing | RewardGraded,
) -> Names:
    """Names by which an event places its run: in a group of ours it would be a sibling, and say how such runs began."""
    match event:
        case RunStarted():
            return ("run", event.run), ("group", event.spec.group_id), ("sweep", event.spec.sweep)
        case InstanceReset() | RunMissing() | RewardGraded():
            return ("run", event.run), ("group", event.group)
        case _:
            return (("run", event.run),)
