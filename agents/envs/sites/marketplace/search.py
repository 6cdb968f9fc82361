"""Catalogue search: reading the form's fields and filtering the boats. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from ..paging import PAGE, Query, Results, cut_page
from .catalog import Boat, Catalogue
from .stock import MAKES, STATES
from .tasks import Seller

T = TypeVar("T")
PAGE_SIZE: Final = 20
MOST_DIGITS: Final = 9


def code(words: str) -> str:
    """Code of a make or a state in addresses."""
    return words.lower().replace(" ", "-")


MAKE_CODES: Final = {code(make): make for make in MAKES}
STATE_CODES: Final = {code(state): state for state in STATES}
SELLER_CODES: Final[Mapping[str, Seller]] = {"prv": "owner", "dlr": "dealer"}
SELLER_WORDS: Final[Mapping[Seller, str]] = {"owner": "Private owner", "dealer": "Dealer"}
ORDERS: Final = {"new": "Newest first", "asc": "Price: low to high", "desc": "Price: high to low"}


@dataclass(frozen=True, slots=True)
class BoatQuery(Query):
    """A search with its parsed fields."""

    make: str | None
    state: str | None
    seller: Seller | None
    max_price: int | None
    min_length: int | None
    order: str


def read_query(parameters: Mapping[str, str]) -> BoatQuery:
    """Read a search from the address; `errors` names the fields that cannot be read."""
    fields = {name: parameters.get(name, "").strip() for name in ("mk", "rg", "slr", "pmax", "lmin", "ord", PAGE)}
    errors: list[str] = []
    return BoatQuery(
        fields=fields,
        make=_look_up(MAKE_CODES, fields["mk"], "make", errors),
        state=_look_up(STATE_CODES, fields["rg"], "state", errors),
        seller=_look_up(SELLER_CODES, fields["slr"], "seller", errors),
        max_price=_whole(fields["pmax"], "Maximum price", errors),
        min_length=_whole(fields["lmin"], "Minimum length", errors),
        order=fields["ord"] if fields["ord"] in ORDERS else "new",
        page=_whole(fields[PAGE], "The page", errors) or 1,
        errors=tuple(errors),
    )


def find_results(catalogue: Catalogue, query: BoatQuery) -> Results[Boat]:
    """Filter, sort and cut one page; a page beyond the last is the last."""
    boats = [boat for boat in catalogue.boats if _passes(boat, query)]
    if query.order != "new":
        boats.sort(key=lambda boat: boat.price, reverse=query.order == "desc")
    return cut_page(boats, query.page, PAGE_SIZE)


def _passes(boat: Boat, query: BoatQuery) -> bool:
    return (
        query.make in (None, boat.make)
        and query.state in (None, boat.state)
        and query.seller in (None, boat.seller)
        and (query.max_price is None or boat.price <= query.max_price)
        and (query.min_length is None or boat.length_ft >= query.min_length)
    )


def _look_up(codes: Mapping[str, T], value: str, what: str, errors: list[str]) -> T | None:
    if value and value not in codes:
        errors.append(f"We do not know that {what}.")
    return codes.get(value)


def _whole(value: str, what: str, errors: list[str]) -> int | None:
    digits = value.removeprefix("$").replace(",", "").strip()
    if not digits:
        return None
    if digits.isascii() and digits.isdigit() and len(digits) <= MOST_DIGITS:
        return int(digits)
    errors.append(f"{what} must be a whole number.")
    return None
