"""The frame of every Harbourline page: addresses within an instance, header, footer, style."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..addresses import InstanceAddresses
from ..markup import Html, document, tag
from .catalog import Boat
from .drift import Family, Place

STYLE: Final = """
:root { color-scheme: light; --sea: #0b3d5c; --foam: #f3f7fa; --line: #d5e0e8; --buoy: #c8451b; }
* { box-sizing: border-box; }
body { margin: 0; font: 16px/1.5 system-ui, sans-serif; color: #1d2b36; background: var(--foam); }
header, footer { background: var(--sea); color: #fff; padding: .8rem 1.5rem; }
header { display: flex; flex-wrap: wrap; gap: 1.5rem; align-items: baseline; }
header a, footer a { color: #fff; text-decoration: none; }
header a:hover, footer a:hover { text-decoration: underline; }
header .brand { font-size: 1.3rem; font-weight: 700; }
nav ul { display: flex; flex-wrap: wrap; gap: 1.2rem; list-style: none; margin: 0; padding: 0; }
main { max-width: 60rem; margin: 0 auto; padding: 1.5rem; min-height: 60vh; }
h1 { margin-top: 0; color: var(--sea); }
form.card, .card { background: #fff; border: 1px solid var(--line); border-radius: 8px; padding: 1rem; margin: 1rem 0; }
.fields { display: grid; grid-template-columns: repeat(auto-fit, minmax(12rem, 1fr)); gap: .8rem; }
label { display: block; font-weight: 600; font-size: .9rem; }
input, select, textarea { width: 100%; padding: .45rem; border: 1px solid #9db2c0; border-radius: 4px; font: inherit; }
button { margin-top: .8rem; padding: .5rem 1.2rem; border: 0; border-radius: 4px; background: var(--buoy); color: #fff;
  font: inherit; font-weight: 600; cursor: pointer; }
ol.results { list-style: none; padding: 0; }
ol.results li { background: #fff; border: 1px solid var(--line); border-radius: 8px; margin: .6rem 0; }
ol.results a { display: block; padding: .8rem 1rem; color: inherit; text-decoration: none; }
ol.results a:hover strong { text-decoration: underline; }
table { border-collapse: collapse; width: 100%; background: #fff; }
caption { text-align: left; font-weight: 700; padding: .4rem 0; }
th, td { text-align: left; padding: .4rem .8rem; border: 1px solid var(--line); }
th { width: 12rem; background: #eaf1f6; }
.error { color: #9b1c1c; font-weight: 600; }
.pages { display: flex; gap: 1.5rem; }
footer { font-size: .9rem; }
"""


@dataclass(frozen=True, slots=True)
class Addresses(InstanceAddresses):
    """The addresses of one instance of Harbourline."""

    family: Family

    @property
    def search(self) -> str:
        """The boats page."""
        return self.prefix + self.family.path("search")

    def offer_address(self, kind: str, boat: Boat, *parts: str) -> str:
        """What a dealer offers with a boat, such as `papers`; these never drift."""
        return "/".join((self.prefix, kind, str(boat.id), *parts))

    def of(self, place: Place, boat: Boat) -> str:
        """A boat's page, or where one of its forms goes."""
        return self.prefix + self.family.path(place, slug=boat.slug, number=boat.id)


def render_page(addresses: Addresses, title: str, *content: str) -> str:
    """Put content between the header and the footer."""
    body = tag(
        "body",
        None,
        _header(addresses),
        "\n",
        tag("main", {"id": "content"}, *content),
        "\n",
        tag(
            "footer",
            None,
            tag("p", None, "Harbourline is a simulated marketplace: its boats, people and numbers are made up. "),
            tag("a", {"href": addresses.text("about")}, "Who we are"),
        ),
    )
    return document(title=f"{title} | Harbourline", style=STYLE, body=body)


def _header(addresses: Addresses) -> Html:
    links = (
        (addresses.search, "Boats for sale"),
        (addresses.text("sell"), "Sell your boat"),
        (addresses.text("advice"), "Advice"),
        (addresses.text("about"), "About"),
    )
    items = (tag("li", None, tag("a", {"href": href}, words)) for href, words in links)
    return tag(
        "header",
        None,
        tag("a", {"class": "brand", "href": addresses.home}, "Harbourline"),
        tag("nav", {"aria-label": "Main"}, tag("ul", None, *items)),
    )
