"""The boats page: the search form, and the boats it leaves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..markup import Html, tag
from ..paging import Results, count_results, page_links
from .catalog import Boat
from .layout import Addresses, render_page
from .search import MAKE_CODES, ORDERS, SELLER_CODES, SELLER_WORDS, STATE_CODES, BoatQuery


def results_page(addresses: Addresses, query: BoatQuery, results: Results[Boat]) -> str:
    """The search form as it was filled in, the number of boats, one page of them, and the way to the others."""
    return render_page(
        addresses,
        "Boats for sale",
        tag("h1", None, "Boats for sale"),
        _form(addresses, query),
        tag("p", {"role": "status"}, count_results(results, "boat")),
        result_list(addresses, results.rows, label="Results"),
        page_links(addresses.search, query, results),
    )


def result_list(addresses: Addresses, boats: Sequence[Boat], *, label: str) -> Html:
    """Boats as a list of links, in the order given."""
    rows = (tag("li", None, _result(addresses, boat)) for boat in boats)
    return tag("ol", {"class": "results", "aria-label": label}, *rows)


def format_price(price: int) -> str:
    """A price as pages show it."""
    return f"${price:,}"


def _result(addresses: Addresses, boat: Boat) -> Html:
    facts = (format_price(boat.price), f"{boat.length_ft} ft", boat.state, SELLER_WORDS[boat.seller])
    return tag("a", {"href": addresses.of("detail", boat)}, tag("strong", None, boat.title), " · " + " · ".join(facts))


def _form(addresses: Addresses, query: BoatQuery) -> Html:
    fields = query.fields
    makes, states = {"": "Any", **MAKE_CODES}, {"": "Any", **STATE_CODES}
    sellers = {"": "Any", **{key: SELLER_WORDS[seller] for key, seller in SELLER_CODES.items()}}
    return tag(
        "form",
        {"class": "card", "method": "get", "action": addresses.search, "autocomplete": "off"},
        *(tag("p", {"class": "error", "role": "alert"}, words) for words in query.errors),
        tag(
            "div",
            {"class": "fields"},
            _choice("hl-s1", "mk", "Make", makes, fields["mk"]),
            _choice("hl-s2", "rg", "State", states, fields["rg"]),
            _choice("hl-s3", "slr", "Seller", sellers, fields["slr"]),
            _entry("hl-s4", "pmax", "Maximum price", fields["pmax"]),
            _entry("hl-s5", "lmin", "Minimum length", fields["lmin"]),
            _choice("hl-s6", "ord", "Sort by", ORDERS, query.order),
        ),
        tag("button", {"type": "submit"}, "Search"),
    )


def _choice(identity: str, name: str, label: str, options: Mapping[str, str], chosen: str) -> Html:
    choices = (tag("option", {"value": key, "selected": key == chosen}, words) for key, words in options.items())
    return tag(
        "div",
        None,
        tag("label", {"for": identity}, label),
        tag("select", {"id": identity, "name": name}, *choices),
    )


def _entry(identity: str, name: str, label: str, value: str) -> Html:
    return tag(
        "div",
        None,
        tag("label", {"for": identity}, label),
        tag("input", {"id": identity, "name": name, "type": "text", "inputmode": "numeric", "value": value}),
    )
