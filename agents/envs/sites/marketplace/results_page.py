"""The boats page: the search form and the boats found."""

from __future__ import annotations

from ..markup import render_page
from ..paging import Results
from .catalog import Boat
from .layout import Addresses
from .search import MAKE_CODES, ORDERS, SELLER_CODES, SELLER_WORDS, STATE_CODES, BoatQuery


def results_page(addresses: Addresses, query: BoatQuery, results: Results[Boat]) -> str:
    """The filled-in search form, the number of boats found, one page of them, and links to the other pages."""
    return render_page(
        "results.html",
        addresses,
        query=query,
        results=results,
        makes=MAKE_CODES,
        states=STATE_CODES,
        sellers={key: SELLER_WORDS[seller] for key, seller in SELLER_CODES.items()},
        orders=ORDERS,
    )
