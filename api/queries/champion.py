"""The champion: who it is now, and every move of the pointer."""

from __future__ import annotations

import msgspec

from projections.champions import CHAMPION, CHAMPIONS, ChampionState
from projections.engine.views import Views

from ..errors import NoChampion
from .facts import require
from .history import Since, page_history


class ChampionAnswer(msgspec.Struct, frozen=True):
    """The champion: the artifact, who moved the pointer to it, why, on what evaluation, and since when."""

    champion: ChampionState


class ChampionHistory(msgspec.Struct, frozen=True):
    """Moves of the champion, oldest first; `next` is the position to continue after, null where no more follow."""

    history: tuple[Since[ChampionState], ...]
    next: int | None = None


def present_champion(views: Views) -> ChampionState:
    """The present champion; the controller sees to it that there is one. Raises FactMissing."""
    return require(views.get(CHAMPIONS, CHAMPION))


def show_champion(views: Views) -> ChampionAnswer:
    """The champion. Raises NoChampion where none was pointed at yet."""
    state = views.get(CHAMPIONS, CHAMPION)
    if state is None:
        raise NoChampion(upto=int(views.upto))
    return ChampionAnswer(champion=state)


def champion_history(views: Views, *, after: int = 0, limit: int | None = None) -> ChampionHistory:
    """The first `limit` moves of the champion after a position (None: all)."""
    page, following = page_history(views, CHAMPIONS, CHAMPION, after=after, limit=limit)
    return ChampionHistory(history=page, next=following)
