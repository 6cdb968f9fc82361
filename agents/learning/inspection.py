"""What recovery needs of an instance: to take steps in it from its start, and to see what is there then."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from eventlog.events import StepOutcome

from ..envs.clients.controls import Control
from ..plans import Plan


@dataclass(frozen=True, slots=True)
class Inspection:
    """How far steps went, and what is seen where they ended.

    `walked` counts the steps that were passed, optional ones that found nothing included; `outcome` is that of the
    first that failed, else ok. `page` is the path of the page, "" before the first; `text` is what it says.
    """

    walked: int
    outcome: StepOutcome
    page: str
    text: str
    controls: tuple[Control, ...]


class Inspector(Protocol):
    """A run's own instance after the run has ended: nothing that is done in it counts any more."""

    def after(self, steps: Plan) -> Inspection:
        """Take these steps from the instance's start, as far as the first that fails, and look.

        The instance is made anew for it, so that what was tried before leaves no trace. Raises EnvironmentFailure.
        """
        ...
