"""Lanternpost's addresses by seed: two pools of families that share only the canonical one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, cast

from ..drifting import AddressFamily, draw_family

RUN: Final = 3

Place = Literal["inbox", "assign", "ticket", "reply", "merge"]


@dataclass(frozen=True, slots=True)
class Family(AddressFamily):
    """One family of the desk's addresses; `{id}` stands for the ticket's number."""

    inbox: str
    assign: str
    ticket: str
    reply: str
    merge: str

    def path(self, place: Place, number: int = 0) -> str:
        """Address of a place, from the instance's root; a ticket's place needs its number."""
        return self.patterns[place].format(id=number)

    def locate(self, path: str) -> tuple[Place, int] | None:
        """The place at an address, and the ticket's number in it; a slash at the end is ignored."""
        found = self.find_place(path)
        return None if found is None else (cast("Place", found[0]), int(found[1].get("id", 0)))


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
