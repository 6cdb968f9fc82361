"""Lanternpost's addresses by seed: two pools of families that share only the canonical one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

from ..drifting import draw_family, expression_of

RUN: Final = 3

Place = Literal["inbox", "assign", "ticket", "reply", "merge"]


@dataclass(frozen=True, slots=True)
class Family:
    """One family of the desk's addresses; `{id}` stands for the ticket's number."""

    name: str
    inbox: str
    assign: str
    ticket: str
    reply: str
    merge: str

    @property
    def patterns(self) -> Mapping[Place, str]:
        """Address pattern of each place."""
        return {
            "inbox": self.inbox,
            "assign": self.assign,
            "ticket": self.ticket,
            "reply": self.reply,
            "merge": self.merge,
        }

    def path(self, place: Place, number: int = 0) -> str:
        """Address of a place, from the instance's root; a ticket's place needs its number."""
        return self.patterns[place].format(id=number)

    def locate(self, path: str) -> tuple[Place, int] | None:
        """The place at an address, and the ticket's number in it; a slash at the end is ignored."""
        for place, expression in _expressions(self):
            found = expression.fullmatch(path.rstrip("/"))
            if found:
                return place, int(found.groupdict().get("id", 0))
        return None


CANONICAL: Final = Family(
    "canonical", "/inbox", "/inbox/assign", "/inbox/{id}", "/inbox/{id}/reply", "/inbox/{id}/merge"
)
TRAINING: Final = (
    Family("tickets", "/tickets", "/tickets/bulk", "/tickets/{id}", "/tickets/{id}/answer", "/tickets/{id}/join"),
    Family("queue", "/queue/all", "/queue/route", "/queue/case-{id}", "/queue/case-{id}/send", "/queue/case-{id}/fold"),
    Family("agent", "/agent/mail", "/agent/set", "/agent/m/{id}", "/agent/m/{id}/out", "/agent/m/{id}/into"),
)
SEALED: Final = (
    Family(
        "support",
        "/support/conversations",
        "/support/bulk-edit",
        "/support/conversation/{id}",
        "/support/conversation/{id}/respond",
        "/support/conversation/{id}/combine",
    ),
    Family("php", "/list.php", "/assign.php", "/show-{id}.php", "/reply-{id}.php", "/merge-{id}.php"),
    Family(
        "english", "/en/desk/", "/en/desk/hand-over/", "/en/item/{id}/", "/en/item/{id}/write/", "/en/item/{id}/same/"
    ),
    Family("views", "/views/1", "/views/1/apply", "/t/{id}.html", "/t/{id}/post.html", "/t/{id}/unite.html"),
)


def drift_family(seed: int) -> Family:
    """The family of a seed's instances: one seed in three is canonical."""
    return draw_family(seed, stream="lanternpost:drift", run=RUN, canonical=CANONICAL, pools=(TRAINING, SEALED))


@lru_cache(maxsize=16)
def _expressions(family: Family) -> tuple[tuple[Place, re.Pattern[str]], ...]:
    return tuple((place, re.compile(expression_of(pattern))) for place, pattern in family.patterns.items())
