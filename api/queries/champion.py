"""The champion."""

from __future__ import annotations

from projections.champions import CHAMPION, CHAMPIONS, ChampionState
from projections.engine.views import Views

from .facts import require


def present_champion(views: Views) -> ChampionState:
    """The present champion; the controller sees to it that there is one."""
    return require(views.get(CHAMPIONS, CHAMPION))
