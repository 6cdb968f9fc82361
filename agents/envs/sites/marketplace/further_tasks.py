"""The tasks whose failures no other address cures: knowledge, policy, noise, and a control that nothing cures.

They begin on the first page, whose links never drift, and they are about dealers' boats: what private owners offer is
left to the tasks of `tasks.py`.
"""

from __future__ import annotations

from typing import Final

from ...contract import TaskText
from .tasks import Wanted

SPEC_ID: Final = "marketplace.engine_spec"
CONTACT_ID: Final = "marketplace.phone_after_contact"
WATCH_ID: Final = "marketplace.price_watch"
DRAW_ID: Final = "marketplace.control_draw"

SPEC_WANTED: Final = Wanted("Cobalt", "dealer", None, None, ())
CONTACT_WANTED: Final = Wanted("Grady-White", "dealer", None, None, ())
WATCH_WANTED: Final = Wanted("Chaparral", "dealer", None, None, ())
GATED_MAKES: Final = frozenset({"Grady-White"})
"""Dealers give out no number of these makes before a contact request was started."""

EMAIL: Final = "alex.morgan@example.com"
DRAWN_PER_MILLE: Final = 500
ODDS: Final = {"harbourline:watch:interruption": 250, "harbourline:watch:again": 250}
INTERRUPTION, AGAIN = ODDS

_SEARCH: Final = (
    "On the boat marketplace, start on the first page and follow 'Boats for sale'. Show only {make} boats from "
    "dealers, sorted by price {order}. Open the {which} one"
)
_CHEAPEST: Final = {"order": "from low to high", "which": "cheapest"}

FURTHER_TASKS: Final = (
    TaskText(
        task_id=SPEC_ID,
        cluster="knowledge",
        instruction=_SEARCH.format(make="Cobalt", **_CHEAPEST)
        + ", find the gear ratio of its engine in the papers of the boat and save that entry. What a seller advertises "
        "does not count.",
    ),
    TaskText(
        task_id=CONTACT_ID,
        cluster="policy",
        instruction=_SEARCH.format(make="Grady-White", order="from high to low", which="dearest")
        + " and show its phone number.",
    ),
    TaskText(
        task_id=WATCH_ID,
        cluster="noise",
        instruction=_SEARCH.format(make="Chaparral", **_CHEAPEST)
        + f", follow 'Watch the price' and watch this boat for {EMAIL}.",
    ),
    TaskText(
        task_id=DRAW_ID,
        cluster="control",
        instruction="On the boat marketplace, start on the first page, follow 'About' and then 'Prize draw', and enter "
        f"the draw as {EMAIL}. Only an entry that is drawn counts.",
    ),
)
