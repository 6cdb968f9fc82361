"""Admission: a probe that nothing failed in makes an environment one to learn from, as long as its tasks stay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from eventlog.events import EnvironmentAdmitted, EnvironmentProbed
from eventlog.store import Append, Conflict, EventStore, KeyReused, Position
from projections.engine.views import Views
from projections.environments import ENVIRONMENTS, EnvironmentState

from .contract import TaskText
from .errors import AdmittedOtherwise, NotAdmitted
from .probing.probes import tasks_digest

STREAM: Final = "environment/{}"


def record(store: EventStore, report: EnvironmentProbed, actor: str) -> Position:
    """Append what was found, also where something failed; its position."""
    return _append(store, Append(STREAM.format(report.environment), (report,), actor))


def admit(store: EventStore, probed: EnvironmentState, actor: str, reason: str) -> Position:
    """Append that an environment is admitted on its newest probe; once for each probe, however often it is asked.

    Raises NotAdmitted where something failed in it, AdmittedOtherwise where somebody gave another reason.
    """
    if probed.failed_probes:
        raise NotAdmitted(environment=probed.environment, actual=why_not(probed))
    event = EnvironmentAdmitted(
        environment=probed.environment,
        probe=probed.probed_since,
        tasks_digest=probed.tasks_digest,
        by=actor,
        reason=reason,
    )
    cause = Position(probed.probed_since)
    return _append(
        store, Append(STREAM.format(probed.environment), (event,), actor, key=f"admitted:{cause}", cause=cause)
    )


def check_admitted(views: Views, environment: str, tasks: Sequence[TaskText]) -> None:
    """Whether an environment that grades these tasks may be learned from and judged by. Raises NotAdmitted."""
    state = views.get(ENVIRONMENTS, environment)
    if state is None or not state.admits(tasks_digest(tasks)):
        raise NotAdmitted(environment=environment, actual=why_not(state))


def why_not(state: EnvironmentState | None) -> str:
    """Why an environment is not admitted."""
    if state is None:
        return "it was never probed"
    if state.failed_probes:
        return f"of its probes at position {state.probed_since} failed: {', '.join(state.failed_probes)}"
    if state.admitted_since is None:
        return f"it was probed at position {state.probed_since} and not admitted"
    return f"its tasks are others than those admitted at position {state.admitted_since}"


def _append(store: EventStore, request: Append) -> Position:
    (outcome,) = store.append([request])
    if isinstance(outcome, KeyReused):
        raise AdmittedOtherwise(actual=outcome.first)
    if isinstance(outcome, Conflict):
        raise TypeError(f"a probe names no version, and the store answered {outcome!r}; expected no conflict")
    return outcome.first
