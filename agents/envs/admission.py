"""Admission of environments for learning: granted on a probe without failures, valid while the tasks stay the same."""

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
    """Append a probe report, even one with failures. Returns its position."""
    return _append(store, Append(STREAM.format(report.environment), (report,), actor))


def admit(store: EventStore, probed: EnvironmentState, actor: str, reason: str) -> Position:
    """Append the admission of an environment on its newest probe; idempotent for each probe.

    Raises NotAdmitted if the probe has failures, AdmittedOtherwise if another actor or reason admitted it before.
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
    """Check that an environment with these tasks is admitted for learning and judging. Raises NotAdmitted."""
    state = views.get(ENVIRONMENTS, environment)
    if state is None or not state.admits(tasks_digest(tasks)):
        raise NotAdmitted(environment=environment, actual=why_not(state))


def why_not(state: EnvironmentState | None) -> str:
    """Why an environment is not admitted."""
    if state is None:
        return "it was never probed"
    if state.failed_probes:
        return f"its probe at position {state.probed_since} failed: {', '.join(state.failed_probes)}"
    if state.admitted_since is None:
        return f"it was probed at position {state.probed_since} and not admitted"
    return f"its tasks differ from those admitted at position {state.admitted_since}"


def _append(store: EventStore, request: Append) -> Position:
    (outcome,) = store.append([request])
    if isinstance(outcome, KeyReused):
        raise AdmittedOtherwise(actual=outcome.first)
    if isinstance(outcome, Conflict):
        raise TypeError(f"appending a probe without an expected version gave {outcome!r}; expected no conflict")
    return outcome.first
