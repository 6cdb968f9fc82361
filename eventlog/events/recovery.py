"""Recovery: what a failed run was looked over for, and what came of it."""

from __future__ import annotations

from typing import Literal

from .event import Count, Event, Name

RecoveryMode = Literal["add_hint", "edit_step", "insert_steps", "halt"]
"""add_hint: another target that was seen on the page. edit_step: another address or option. insert_steps: something
that has to be done before or after. halt: there is nothing to propose. The cheapest come first."""

RecoveryReason = Literal["proposed", "nothing_worked", "nothing_to_try", "budget_used_up", "site_failed"]


class RecoveryDecided(Event):
    """A mode of recovery came to its end in a run: at which step of the plan, what was tried there, what was proposed.

    `tried` counts the changes that were walked in the run's own instance, `proposed` names the pieces that worked
    there. The last one of a run in which nothing was proposed is `halt`, and of one whose site failed meanwhile.
    """

    type: Literal["RecoveryDecided"] = "RecoveryDecided"
    run: Name
    step: Count
    mode: RecoveryMode
    tried: Count
    proposed: tuple[Name, ...]
    reason: RecoveryReason
