"""Tasks whose failures a corrected address does not cure: knowledge, policy, noise, and a control without cure.

They begin on the first page, whose links never drift, and are about dealers' boats; the tasks of `tasks.py` are about
private owners' boats.
"""

from __future__ import annotations

from typing import Final

from ...contract import TaskText
from .catalog import Boat, Catalogue
from .tasks import Wanted

SPEC_ID: Final = "marketplace.engine_spec"
CONTACT_ID: Final = "marketplace.phone_after_contact"
WATCH_ID: Final = "marketplace.price_watch"
DRAW_ID: Final = "marketplace.control_draw"

SPEC_WANTED: Final = Wanted("Cobalt", "dealer", None, 60_000, ())
CONTACT_WANTED: Final = Wanted("Grady-White", "dealer", None, 60_000, ())
WATCH_WANTED: Final = Wanted("Chaparral", "dealer", None, 35_000, ())
GATED_MAKES: Final = frozenset({"Grady-White"})
"""Makes whose dealers require a contact request before they give out a number."""

EMAIL: Final = "alex.morgan@example.com"
DRAWN_PER_MILLE: Final = 500
ODDS: Final = {"harbourline:watch:interruption": 250, "harbourline:watch:again": 250}
INTERRUPTION, AGAIN = ODDS


def right_boat(catalogue: Catalogue, wanted: Wanted) -> Boat:
    """Correct boat of a further task: the most expensive one that passes the filters."""
    return catalogue.qualifying_boats(wanted)[-1]


_SEARCH: Final = (
    "On the boat marketplace, start on the first page and follow 'Boats for sale'. Show only {0.make} boats from "
    "dealers with a maximum price of {0.max_price}, sorted by price from high to low. Open the dearest one"
)

FURTHER_TASKS: Final = (
    TaskText(
        task_id=SPEC_ID,
        cluster="knowledge",
        instruction=_SEARCH.format(SPEC_WANTED)
        + ", find the gear ratio of its engine in the papers of the boat and save that entry. What a seller advertises "
        "does not count.",
    ),
    TaskText(
        task_id=CONTACT_ID,
        cluster="policy",
        instruction=_SEARCH.format(CONTACT_WANTED) + " and show its phone number.",
    ),
    TaskText(
        task_id=WATCH_ID,
        cluster="noise",
        instruction=_SEARCH.format(WATCH_WANTED) + f", follow 'Watch the price' and watch this boat for {EMAIL}.",
    ),
    TaskText(
        task_id=DRAW_ID,
        cluster="control",
        instruction="On the boat marketplace, start on the first page, follow 'About' and then 'Prize draw', and enter "
        f"the draw as {EMAIL}. Only an entry that is drawn counts.",
    ),
)
