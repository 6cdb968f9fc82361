"""Learning of a worker from ended sweeps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from agents.rollouts.dispatching.durable import Notice
from eventlog.errors import BlobDamaged, BlobMissing
from eventlog.events import PromotionRule, SweepPlanned

from ..course import Course
from ..errors import ForgedEvents
from ..history.disown import refuse_forged
from ..house import House
from .play import make_up


@dataclass(slots=True)
class Learner:
    """Learns from ended sweeps under a rule, and reports to `tell` what it cannot learn from."""

    house: House
    rule: PromotionRule
    tell: Callable[[Notice], None]
    told: str = ""

    def may_learn(self) -> bool:
        """False while the log holds forged events that were not disowned. Each finding is reported once."""
        try:
            refuse_forged(self.house.views())
        except ForgedEvents as error:
            self._tell_forged(error)
            return False
        self.told = ""
        return True

    def _tell_forged(self, error: ForgedEvents) -> None:
        if str(error) != self.told:
            self.tell(Notice("forged", facts={"error": str(error)}))
        self.told = str(error)

    def learn(self, sweep: SweepPlanned) -> None:
        """Learn from an ended sweep. An unreadable blob is reported and does not stop other sweeps.

        A sweep that forged events keep open is found again once they are disowned.
        """
        try:
            make_up(self.house, [sweep], Course(rule=self.rule))
        except ForgedEvents as error:
            self._tell_forged(error)
        except (BlobMissing, BlobDamaged) as error:
            self.tell(Notice("unlearned", facts={"sweep": sweep.sweep, "error": f"{type(error).__name__}: {error}"}))
