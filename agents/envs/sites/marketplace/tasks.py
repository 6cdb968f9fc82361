"""The two tasks that begin with a search whose address drifts: their instructions, and the correct boats."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from ...contract import TaskText

Seller = Literal["dealer", "owner"]
Trait = tuple[str, str, Seller]


@dataclass(frozen=True, slots=True)
class Wanted:
    """Filters of a task; in the two tasks here, the cheapest boat that passes them is the correct one.

    `decoys` are (make, state, seller) of cheaper boats that fail one filter each, so that no filter can be skipped.
    """

    make: str
    seller: Seller
    state: str | None
    max_price: int | None
    decoys: tuple[Trait, ...]

    def fits(self, *, make: str, seller: Seller, state: str, price: int) -> bool:
        """True if a boat with these facts passes every filter."""
        return (
            (make, seller) == (self.make, self.seller)
            and self.state in (None, state)
            and (self.max_price is None or price <= self.max_price)
        )


@dataclass(frozen=True, slots=True)
class LeadRequest:
    """Required content of the lead task's request for details."""

    name: str
    email: str
    message: str


NAVIGATION: Final = "navigation"
LEAD_ID: Final = "marketplace.lead_filtered_search"
PHONE_ID: Final = "marketplace.phone_reveal"

LEAD_WANTED: Final = Wanted(
    make="Bayliner",
    seller="owner",
    state=None,
    max_price=40_000,
    decoys=(("Bayliner", "Texas", "dealer"), ("Tracker", "Texas", "owner")),
)
PHONE_WANTED: Final = Wanted(
    make="Sea Ray",
    seller="owner",
    state="Florida",
    max_price=None,
    decoys=(("Sea Ray", "Florida", "dealer"), ("Sea Ray", "Georgia", "owner"), ("Tracker", "Florida", "owner")),
)
LEAD_REQUEST: Final = LeadRequest("Alex Morgan", "alex.morgan@example.com", "Is it still available?")

TASKS: Final = (
    TaskText(
        task_id=LEAD_ID,
        cluster=NAVIGATION,
        instruction=(
            "On the boat marketplace, open the boats page at /boats. Show only Bayliner boats from private owners with "
            "a maximum price of 40000, sorted by price from low to high. Open the cheapest one and request details as "
            "Alex Morgan, alex.morgan@example.com, with the message 'Is it still available?'."
        ),
    ),
    TaskText(
        task_id=PHONE_ID,
        cluster=NAVIGATION,
        instruction=(
            "On the boat marketplace, open the boats page at /boats. Show only Sea Ray boats in Florida from private "
            "owners, sorted by price from low to high. Open the cheapest one and show its phone number."
        ),
    ),
)
