"""A random agent: it follows links and submits forms as a seed draws them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, Final

from ..clients.pages import Absent, Page
from ..clients.session import Session

WORDS: Final = (
    "",
    "0",
    "-1",
    "40000",
    "99999999999999999999",
    "boat",
    "Alex Morgan",
    "alex.morgan@example.com",
    "not an address",
    "'; --",
    "<b>bold</b>",
    "ünïcödé ✓",
    "a line\nand another",
    "long " * 60,
)
"""Values that it types: plausible, empty, and ones that break careless sites."""

WRITTEN: Final = frozenset({"text", "email", "search", "number", "tel", "url", "password", "date", ""})


def random_walk(session: Session, rng: random.Random, steps: int) -> Iterator[Page]:
    """Yield the first page, then `steps` more, reached by random links and randomly filled forms."""
    page = session.open("/")
    yield page
    for _ in range(steps):
        page = _step_at_random(session, page, rng)
        yield page


def _step_at_random(session: Session, page: Page, rng: random.Random) -> Page:
    """Take one random step; return to the first page from a dead end."""
    links = [link.path for link in page.links()]
    buttons = [(button, caption) for button in _buttons(page) if (caption := _caption(button))]
    try:
        if buttons and (not links or rng.randrange(2)):
            button, caption = rng.choice(buttons)
            _fill(button, rng)
            return session.submit(page, caption)
        return session.open(rng.choice(links) if links else "/")
    except Absent:
        return session.open("/")


def _buttons(page: Page) -> list[Any]:
    found = page.document.iter("button", "input")
    return [each for each in found if (each.tag == "button" or each.get("type") == "submit") and _form_of(each)]


def _caption(button: Any) -> str:
    return " ".join(str(button.text_content() if button.tag == "button" else button.get("value") or "").split())


def _form_of(button: Any) -> list[Any]:
    return list(button.iterancestors("form"))[:1]


def _fill(button: Any, rng: random.Random) -> None:
    """Fill every control of the button's form."""
    for control in _form_of(button)[0].iter("input", "select", "textarea"):
        if control.tag == "select":
            _choose(control, rng)
        elif control.tag == "textarea":
            control.value = rng.choice(WORDS)
        elif control.get("type") in {"checkbox", "radio"}:
            _tick(control, rng)
        elif (control.get("type") or "").lower() in WRITTEN:
            control.set("value", rng.choice(WORDS).replace("\n", " "))


def _choose(control: Any, rng: random.Random) -> None:
    options = list(control.iter("option"))
    for option in options:
        option.attrib.pop("selected", None)
    if options:
        rng.choice(options).set("selected", "selected")


def _tick(control: Any, rng: random.Random) -> None:
    control.attrib.pop("checked", None)
    if rng.randrange(2):
        control.set("checked", "checked")
