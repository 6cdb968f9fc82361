"""Protocol by which recovery executes steps in an instance from its start and reads the resulting page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from eventlog.events import StepOutcome

from ..envs.clients.controls import Control
from ..plans import Plan


@dataclass(frozen=True, slots=True)
class Inspection:
    """Result of executing steps: how many were passed, and the page where they ended.

    `walked` counts the steps that were passed, including skipped optional ones; `outcome` is that of the first failed
    step, else ok. `page` is the path of the page, "" before the first; `text` is its text.
    """

    walked: int
    outcome: StepOutcome
    page: str
    text: str
    controls: tuple[Control, ...]


class Inspector(Protocol):
    """Access to a run's own instance after the run has ended; steps taken in it do not affect the run's grade."""

    def after(self, steps: Plan) -> Inspection:
        """Execute these steps from the instance's start, up to the first that fails, and inspect the page.

        The instance is reset before, so that earlier attempts leave no trace. Raises EnvironmentFailure.
        """
        ...
