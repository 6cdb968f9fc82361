"""Recovery: the modes tried on a failed run, and their results."""

from __future__ import annotations

from typing import Literal

from .event import Count, Event, Name

RecoveryMode = Literal["add_hint", "edit_step", "insert_steps", "halt"]
"""add_hint: another target that was seen on the page. edit_step: another address or option. insert_steps: steps that
have to be taken before or after. halt: no proposal. In order of cost, cheapest first."""

RecoveryReason = Literal[
    "proposed", "nothing_worked", "nothing_to_try", "budget_used_up", "site_failed", "no_such_control"
]
"""no_such_control: the failed step's page has no control with a name like the one it names, and nothing else worked."""


class RecoveryDecided(Event):
    """One recovery mode finished for a failed run, at a step of its plan.

    `tried` counts the changes that were executed in the run's own instance, `proposed` names the pieces that worked
    there. If nothing was proposed, or the site failed during recovery, the last mode of the run is `halt`.
    """

    type: Literal["RecoveryDecided"] = "RecoveryDecided"
    run: Name
    step: Count
    mode: RecoveryMode
    tried: Count
    proposed: tuple[Name, ...]
    reason: RecoveryReason
