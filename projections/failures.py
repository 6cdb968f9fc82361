"""Failures: the failure class of each failed run, from structured outcomes, and clusters of failed runs."""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass
from typing import Literal, get_args

from msgspec.structs import replace

from .engine.projection import EventRow, Fold, FoldState

FailureClass = Literal["bad_url", "page_error", "missing_control", "refused_input", "out_of_budget", "wrong_outcome"]
"""bad_url: a planned address was not found. page_error: the site answered with an error. missing_control: a link, field
or option was not on the page. refused_input: a form was rejected. wrong_outcome: every step succeeded, but the oracle
failed the run."""

FAILURE_CLASSES: tuple[FailureClass, ...] = get_args(FailureClass)

_OF_OUTCOME: dict[str, FailureClass] = {
    "not_found": "bad_url",
    "forbidden": "page_error",
    "server_error": "page_error",
    "invalid_form": "refused_input",
    "no_such_link": "missing_control",
    "no_such_field": "missing_control",
    "no_such_option": "missing_control",
    "no_such_action": "missing_control",
    "invalid_argument": "refused_input",
}


class FailureState(FoldState, frozen=True, kw_only=True):
    """The last failed step of a run, cleared by a later successful step, because a policy continues after a failure.

    `passed` is None until the oracle has graded the run.
    """

    run: str = ""
    template: str = ""
    cluster: str = ""
    environment: str = ""
    is_benchmark: bool = False
    failure_class: str | None = None
    step_index: int | None = None
    step_intent: str | None = None
    passed: bool | None = None

    @property
    def is_failure(self) -> bool:
        """True if the run was graded and did not pass."""
        return self.passed is False


@dataclass(frozen=True, slots=True)
class FailureCluster:
    """Failed runs with the same failure class at the same step of the same template."""

    environment: str
    template: str
    failure_class: str
    step_intent: str
    runs: tuple[str, ...]


def _fold(state: FailureState, row: EventRow) -> FailureState:
    match row.type:
        case "RunStarted":
            return FailureState(
                run=row.text("run"),
                template=row.text("spec.template"),
                cluster=row.text("task_spec.task_class"),
                environment=row.text("task_spec.environment"),
                is_benchmark=row.field("arm") is not None,
            )
        case "StepTaken":
            found = _OF_OUTCOME.get(row.text("outcome"))
            if found is None:
                return replace(state, failure_class=None, step_index=None, step_intent=None)
            return replace(state, failure_class=found, step_index=row.number("index"), step_intent=row.text("intent"))
        case "RunFinished":
            return replace(state, failure_class="out_of_budget") if row.text("status") == "out_of_budget" else state
        case _:
            passed = row.flag("passed")
            unexplained = not passed and state.failure_class is None
            return replace(state, passed=passed, failure_class="wrong_outcome" if unexplained else state.failure_class)


def clusters(failures: Iterable[FailureState], contaminated: Set[str]) -> tuple[FailureCluster, ...]:
    """Clusters of failed runs by environment, template, class and step; largest first, ties by name.

    Contaminated runs are excluded: their instance was not the task they were given, so the agent did not fail it.
    """
    found: dict[tuple[str, str, str, str], list[str]] = {}
    for state in failures:
        if state.is_failure and state.run not in contaminated:
            name = (state.environment, state.template, state.failure_class or "", state.step_intent or "")
            found.setdefault(name, []).append(state.run)
    rows = [FailureCluster(*name, runs=tuple(sorted(runs))) for name, runs in found.items()]
    return tuple(sorted(rows, key=lambda c: (-len(c.runs), c.environment, c.template, c.failure_class, c.step_intent)))


FAILURES = Fold(
    name="failures",
    version=3,
    reads={
        "RunStarted": ("run", "spec.template", "task_spec.task_class", "task_spec.environment", "arm"),
        "StepTaken": ("run", "index", "intent", "outcome"),
        "RunFinished": ("run", "status"),
        "RewardGraded": ("run", "passed"),
    },
    initial=FailureState(),
    key=lambda row: row.text("run"),
    fold=_fold,
    stream_of=lambda key: f"run/{key}",
    rests_on=dict.fromkeys(("RunStarted", "StepTaken", "RunFinished", "RewardGraded"), ("run",)),
)
