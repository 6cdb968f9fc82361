"""The champion: who it is now, and every move of the pointer."""

from __future__ import annotations

import msgspec

from projections.champions import CHAMPION, CHAMPIONS, ChampionState
from projections.engine.views import Views

from .facts import find_state, require
from .history import Since, history_of


class ChampionAnswer(msgspec.Struct, frozen=True):
    """The champion: the artifact, who moved the pointer to it, why, on what evaluation, and since when."""

    champion: ChampionState


class ChampionHistory(msgspec.Struct, frozen=True):
    """Every move of the champion, oldest first."""

    history: tuple[Since[ChampionState], ...]


def present_champion(views: Views) -> ChampionState:
    """The present champion; the controller sees to it that there is one. Raises FactMissing."""
    return require(views.get(CHAMPIONS, CHAMPION))


def show_champion(views: Views) -> ChampionAnswer:
    """The champion. Raises Unknown where none was pointed at yet."""
    way_out = (
        f"None was pointed at up to position {views.upto}; `flywheel run` points the first one,"
        " `flywheel champion point` any."
    )
    return ChampionAnswer(champion=find_state(views, CHAMPIONS, CHAMPION, what="champion", way_out=way_out))


def champion_history(views: Views) -> ChampionHistory:
    """Every move of the champion."""
    return ChampionHistory(history=history_of(views, CHAMPIONS, CHAMPION))
