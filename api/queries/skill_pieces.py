"""How the skills of delegation loops stand as pieces of memory."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec

from projections.candidacy import piece_status
from projections.engine.views import Views
from projections.pieces import SKILL_PIECES


class SkillStanding(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of memory that is a version of a skill: its status at a time, and the tasks that it is for."""

    piece: str
    status: str
    environment: str
    cluster: str | None
    trials: int

    @property
    def words(self) -> str:
        """The status and the tasks in words."""
        return f"{self.status} for {self.cluster or 'every task'} of {self.environment}"


def standings_of_skills(views: Views, now: datetime) -> Mapping[str, tuple[SkillStanding, ...]]:
    """The pieces of each skill, by its name, in order of id."""
    found: dict[str, tuple[SkillStanding, ...]] = {}
    for key, state in sorted(views.find(SKILL_PIECES).items()):
        standing = SkillStanding(
            piece=key,
            status=piece_status(state, now),
            environment=state.occasion.get("environment", ""),
            cluster=state.occasion.get("cluster"),
            trials=state.treated.k,
        )
        found[state.title] = (*found.get(state.title, ()), standing)
    return found


def skills_out_of_use(views: Views) -> frozenset[str]:
    """Skills of which a piece was demoted or quarantined, and none is promoted."""
    statuses: dict[str, set[str]] = {}
    for state in views.find(SKILL_PIECES).values():
        statuses.setdefault(state.title, set()).add(state.status)
    return frozenset(
        name for name, own in statuses.items() if own & {"demoted", "quarantined"} and "promoted" not in own
    )
