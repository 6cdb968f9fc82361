"""Calibration of the judge that selects a dataset, on runs of the same suite that the oracle graded."""

from __future__ import annotations

from typing import Final

from agents.suites.errors import NoSuite
from agents.suites.in_log import suite_for
from eventlog.errors import FlywheelError
from eventlog.events import Query, SftQuery
from eventlog.store import EventStore
from gate.figures import count_noun, decimal
from projections.engine.views import Views
from projections.judges import Calibration, calibrate_on

LEAST_COMPARED: Final = 20
"""Runs that judge and oracle both graded, before the judge may select what is learned."""


class NotCalibrated(FlywheelError):
    """The judge {judge!r} is not calibrated on {environment}: {actual}; expected {expected}.

    Ask it about graded runs outside evaluations, with `flywheel runs grade --judge`.
    """


def calibration_of(store: EventStore, views: Views, query: Query) -> Calibration | None:
    """Calibration of the judge that a query names; None if it names none. Raises NotCalibrated.

    At least LEAST_COMPARED runs were graded by judge and oracle, one of them failed by the oracle: runs of the tasks of
    the environment's suite, or of the environment where the log has no suite for it.
    """
    if not isinstance(query, SftQuery) or query.judged_by is None or query.environment is None:
        return None
    found = calibrate_on(views, query.judged_by, query.environment, _tasks_of(store, views, query.environment))
    if found.compared_runs < LEAST_COMPARED or not found.oracle_failed:
        compared = count_noun(found.compared_runs, "run")
        raise NotCalibrated(
            judge=query.judged_by,
            environment=query.environment,
            actual=f"{compared} graded by it and by the oracle, {found.oracle_failed} of them failed by the oracle",
            expected=f"at least {LEAST_COMPARED}, and one that failed",
        )
    return found


def _tasks_of(store: EventStore, views: Views, environment: str) -> frozenset[str] | None:
    """The tasks of an environment's suite in the log; None without one."""
    try:
        found = suite_for(store, views, environment)
    except NoSuite:
        return None
    return frozenset(task.id for task in found.suite.tasks) if found.version else None


def describe_calibration(found: Calibration) -> str:
    """A judge's calibration in one sentence."""
    rates = (found.accuracy, found.false_pass_rate, found.false_fail_rate)
    accuracy, passes, fails = ("unknown" if rate is None else decimal(rate) for rate in rates)
    compared = count_noun(found.compared_runs, "run")
    return (
        f"selected by the judge {found.judge}, not by an oracle: on {compared} that both graded it agrees in "
        f"{accuracy}, passes {passes} of those that the oracle failed and fails {fails} of those that it passed"
    )
