"""Why a run is missing."""

from __future__ import annotations

from eventlog.errors import WeightsFailure
from eventlog.events import MissingCause

from ..envs.errors import ContractBroken, EnvironmentDown, EnvironmentFailure, EnvironmentRefused
from ..models.errors import ModelFailure


def missing_cause(failure: EnvironmentFailure | ModelFailure | WeightsFailure) -> MissingCause:
    """The cause that a missing run records for a failure of the platform."""
    match failure:
        case EnvironmentDown():
            return "environment_down"
        case EnvironmentRefused():
            return "environment_refused"
        case ContractBroken():
            return "contract_broken"
        case ModelFailure() | WeightsFailure():
            return "model_down"
        case _:
            return "platform_error"
