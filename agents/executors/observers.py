"""Verification of each executed step: which verifier is asked, and what it is shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from eventlog.events import Step

from ..envs.contract import Instance
from ..learning.step_checks import (
    OracleVerifier,
    StepObservation,
    StepVerifier,
    check_name,
    verifier_for,
    verify_observation,
)
from ..models.model import Image
from ..suites.tasks import Operations
from .executor import ExecutedStep, Verified, Watch, no_verification

KindOf = Callable[[Step], str | None]
"""Returns the kind of a step; None if it is unknown."""

Look = Callable[[Instance, int], Mapping[str, Any]]
"""Reads the mutations of an instance above an id, as `fetch_mutations` gives them; never raises."""


def watch_of(verifier: StepVerifier, kind: KindOf) -> Watch:
    """A watch that verifies every step once, right after its execution."""

    def watch(taken: ExecutedStep) -> Verified:
        found = kind(taken.step)
        return Verified(taken.index, check_name(found), verify_observation(verifier, observation_of(taken, found)))

    return watch


def observation_of(taken: ExecutedStep, kind: str | None) -> StepObservation:
    """The observation of a step that a verifier is shown."""
    picture = None if taken.screenshot is None else Image("image/png", taken.screenshot)
    return StepObservation(kind, taken.step.intent, expected_of(taken.step), taken.http_status, taken.text, picture)


def expected_of(step: Step) -> str:
    """Expected effect of a step, in words."""
    label, value = step.label or "", step.value or ""
    match step.type:
        case "navigate":
            return f"the page at {step.url or '/'}"
        case "click":
            return f"the page that the link “{label}” leads to"
        case "fill_field":
            return f"“{value}” in the field “{label}”"
        case "select_option":
            return f"“{value}” chosen as “{label}”"
        case "submit":
            return f"what the button “{label}” is for"
        case _:
            return f"what {step.type} {value} is for"


def watch_factory(
    operations: Operations, *, look: Look | None = None, by_model: StepVerifier | None = None
) -> Callable[[Instance], Watch]:
    """Makes the watch of each instance. It verifies by the site's own record if that can be read, else by a model.

    `operations` are those that the steps of the site's plans are expected to record.

    Without a record and a model, steps are not verified.
    """

    def kind(step: Step) -> str | None:
        return operations.kind_of(step.type, step.label)

    def watch(instance: Instance) -> Watch:
        by_oracle = None if look is None else OracleVerifier(lambda since: look(instance, since), operations.table)
        verifier = by_oracle if by_model is None else verifier_for(by_model, by_oracle)
        return no_verification if verifier is None else watch_of(verifier, kind)

    return watch
