"""The boats page: the search form, and the boats it leaves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..markup import Html, tag
from .catalog import Boat
from .layout import Addresses, page
from .search import MAKE_CODES, ORDERS, SELLER_CODES, SELLER_WORDS, STATE_CODES, Query, Results


def results_page(addresses: Addresses, query: Query, results: Results) -> str:
    """The search form as it was filled in, the number of boats, one page of them, and the way to the others."""
    return page(
        addresses,
        "Boats for sale",
        tag("h1", None, "Boats for sale"),
        _form(addresses, query),
        tag("p", {"role": "status"}, _count(results)),
        result_list(addresses, results.boats, label="Results"),
        _turning(addresses, query, results),
    )


def result_list(addresses: Addresses, boats: Sequence[Boat], *, label: str) -> Html:
    """Boats as a list of links, in the order given."""
    rows = (tag("li", None, _result(addresses, boat)) for boat in boats)
    return tag("ol", {"class": "results", "aria-label": label}, *rows)


def dollars(price: int) -> str:
    """A price as pages show it."""
    return f"${price:,}"


def _result(addresses: Addresses, boat: Boat) -> Html:
    facts = (dollars(boat.price), f"{boat.length_ft} ft", boat.state, SELLER_WORDS[boat.seller])
    return tag("a", {"href": addresses.of("detail", boat)}, tag("strong", None, boat.title), " · " + " · ".join(facts))


def _count(results: Results) -> str:
    boats = "1 boat" if results.total == 1 else f"{results.total} boats"
    return f"{boats} found, page {results.page} of {results.pages}"


def _form(addresses: Addresses, query: Query) -> Html:
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


def _turning(addresses: Addresses, query: Query, results: Results) -> Html:
    links: list[Html] = []
    if results.page > 1:
        links.append(tag("a", {"rel": "prev", "href": query.address(addresses.search, results.page - 1)}, "Previous"))
    if results.page < results.pages:
        links.append(tag("a", {"rel": "next", "href": query.address(addresses.search, results.page + 1)}, "Next"))
    return tag("nav", {"class": "pages", "aria-label": "Pages"}, *links)
