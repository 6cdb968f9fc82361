"""The frame of every Lanternpost page: addresses within an instance, header, footer, style, and parts of forms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ..addresses import InstanceAddresses
from ..markup import Html, document, tag
from .drift import Family, Place
from .mailbox import Ticket

STYLE: Final = """
:root { color-scheme: light; --ink: #26243a; --lamp: #b5651d; --paper: #fbf9f5; --line: #ddd6c8; }
* { box-sizing: border-box; }
body { margin: 0; font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); }
header, footer { background: var(--ink); color: #fff; padding: .8rem 1.5rem; }
header { display: flex; flex-wrap: wrap; gap: 1.5rem; align-items: baseline; }
header a { color: #fff; text-decoration: none; }
header a:hover { text-decoration: underline; }
header .brand { font-size: 1.3rem; font-weight: 700; }
nav ul { display: flex; flex-wrap: wrap; gap: 1.2rem; list-style: none; margin: 0; padding: 0; }
main { max-width: 62rem; margin: 0 auto; padding: 1.5rem; min-height: 60vh; }
.card { background: #fff; border: 1px solid var(--line); border-radius: 8px; padding: 1rem; margin: 1rem 0; }
.fields { display: grid; grid-template-columns: repeat(auto-fit, minmax(11rem, 1fr)); gap: .8rem; }
label { display: block; font-weight: 600; font-size: .9rem; }
select, textarea, input[type=text] { width: 100%; padding: .45rem; border: 1px solid #a89f8d; border-radius: 4px;
  font: inherit; }
button { margin: .8rem .6rem 0 0; padding: .5rem 1.2rem; border: 0; border-radius: 4px; background: var(--lamp);
  color: #fff; font: inherit; font-weight: 600; cursor: pointer; }
ol.tickets { list-style: none; padding: 0; }
ol.tickets li { display: flex; gap: 1rem; align-items: center; border-bottom: 1px solid var(--line); padding: .4rem 0; }
ol.tickets label { flex: none; font-weight: 400; }
blockquote { white-space: pre-wrap; border-left: 3px solid var(--lamp); margin: 0; padding: .2rem 1rem; }
.error { color: #9b1c1c; font-weight: 600; }
.pages { display: flex; gap: 1.5rem; }
footer { font-size: .9rem; }
"""


@dataclass(frozen=True, slots=True)
class Addresses(InstanceAddresses):
    """The addresses of one instance of Lanternpost."""

    family: Family

    def of(self, place: Place, ticket: Ticket | None = None) -> str:
        """The inbox, a ticket's page, or where a form goes."""
        return self.prefix + self.family.path(place, 0 if ticket is None else ticket.number)


def render_page(addresses: Addresses, title: str, *content: str) -> str:
    """Put content between the header and the footer."""
    words = "Lanternpost is a simulated helpdesk: its customers, numbers and complaints are made up."
    body = tag(
        "body",
        None,
        _header(addresses),
        "\n",
        tag("main", {"id": "content"}, *content),
        "\n",
        tag("footer", None, tag("p", None, words)),
    )
    return document(title=f"{title} | Lanternpost", style=STYLE, body=body)


def choice(identity: str, name: str, label: str, options: Mapping[str, str], chosen: str) -> Html:
    """A select with its label; options are value -> visible text."""
    choices = (tag("option", {"value": key, "selected": key == chosen}, words) for key, words in options.items())
    return tag(
        "div", None, tag("label", {"for": identity}, label), tag("select", {"id": identity, "name": name}, *choices)
    )


def picked_box(number: int) -> Html:
    """The box that has a ticket taken along; it is checked."""
    identity = f"lp-k{number}"
    box: dict[str, str | bool | None] = {
        "id": identity,
        "name": "k",
        "type": "checkbox",
        "value": str(number),
        "checked": True,
    }
    return tag("label", {"for": identity}, tag("input", box), f"Ticket {number}")


def complaint(words: str) -> Html:
    """What is wrong, said so that it is seen."""
    return tag("p", {"class": "error", "role": "alert"}, words)


def _header(addresses: Addresses) -> Html:
    links = (
        (addresses.of("inbox"), "Inbox"),
        (addresses.text("macros"), "Macros"),
        (addresses.text("rules"), "House rules"),
        (addresses.text("callbacks"), "Call-backs"),
    )
    items = (tag("li", None, tag("a", {"href": href}, words)) for href, words in links)
    return tag(
        "header",
        None,
        tag("a", {"class": "brand", "href": addresses.home}, "Lanternpost"),
        tag("nav", {"aria-label": "Main"}, tag("ul", None, *items)),
    )
