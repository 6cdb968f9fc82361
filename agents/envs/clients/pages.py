"""Pages as an agent sees them: read, and filled in by the names of their controls. Pure over the parsed document."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal
from urllib.parse import urljoin, urlsplit

from lxml import etree, html

from .names import CHECKED, ChoiceControl, choice_of, label_text, labelled_control, spoken_text, unlabelled_controls

LONGEST_TEXT: Final = 4_000
_SPACE = re.compile(r"\s+")

Problem = Literal["no_such_link", "no_such_field", "no_such_option"]


class Absent(Exception):
    """The page has no such control; `problem` names the kind that was looked for."""

    def __init__(self, problem: Problem, label: str) -> None:
        self.problem = problem
        super().__init__(f"{problem}: {label}")


@dataclass(frozen=True, slots=True)
class Link:
    """A link: its visible text, and its path from the instance's root."""

    text: str
    path: str


@dataclass(frozen=True, slots=True)
class Page:
    """A page of the site: status, path from the instance's root, and the parsed document (filled in place)."""

    status: int
    path: str
    address: str
    root: str
    document: html.HtmlElement

    def links(self) -> tuple[Link, ...]:
        """Links that stay inside the instance, in page order."""
        return tuple(link for _, link in self.anchors())

    def anchors(self) -> Iterator[tuple[Any, Link]]:
        """The same links, with their elements."""
        for element in self.document.iter("a"):
            target = join_address(self.address, element.get("href") or "")
            if element.get("href") and target.startswith(self.root):
                yield element, Link(spoken_text(element), "/" + target.removeprefix(self.root))

    def link(self, label: str) -> Link:
        """The link with this text, else the first whose text contains it. Raises Absent."""
        return self._anchor(label)[1]

    def anchor(self, label: str) -> Any:
        """Element of the link that `link` finds. Raises Absent."""
        return self._anchor(label)[0]

    def _anchor(self, label: str) -> tuple[Any, Link]:
        wanted = normalize_label(label)
        shown = [pair for pair in self.anchors() if pair[1].text]
        exact = [pair for pair in shown if normalize_label(pair[1].text) == wanted]
        found = exact or [pair for pair in shown if wanted in normalize_label(pair[1].text)]
        if not found:
            raise Absent("no_such_link", label)
        return found[0]

    def field(self, label: str) -> Any:
        """Form control of this name: that of a label, else one that is named otherwise. Raises Absent."""
        wanted = normalize_label(label)
        for element in self.document.iter("label"):
            if normalize_label(label_text(element)) == wanted:
                control = labelled_control(self.document, element)
                if control is not None:
                    return control
        for control, name in unlabelled_controls(self.document):
            if wanted and normalize_label(name) == wanted:
                return control
        raise Absent("no_such_field", label)

    def button(self, label: str) -> Any:
        """The button with this caption, inside its form. Raises Absent."""
        for element in self.document.iter("button", "input"):
            is_button = element.tag == "button" or element.get("type") == "submit"
            is_it = is_button and normalize_label(caption_of(element)) == normalize_label(label)
            if is_it and enclosing_form(element) is not None:
                return element
        raise Absent("no_such_field", label)

    def fillable(self, label: str) -> Any:
        """Text field of a label. Raises Absent."""
        control = self.field(label)
        if control.tag not in {"input", "textarea"} or choice_of(self.document, control) is not None:
            raise Absent("no_such_field", label)
        return control

    def fill(self, label: str, value: str) -> None:
        """Fill a text field. Raises Absent."""
        control = self.fillable(label)
        if control.tag == "textarea":
            control.value = value
        else:
            control.set("value", value)

    def option(self, label: str, option: str) -> tuple[ChoiceControl, int]:
        """The choice of this name, and the index of its option with this visible text. Raises Absent.

        A radio button that is named itself may be `checked`, as a box may.
        """
        control = self.field(label)
        found = choice_of(self.document, control)
        if found is None:
            raise Absent("no_such_field", label)
        wanted = normalize_label(option)
        for place, text in enumerate(found.options):
            if normalize_label(text) == wanted:
                return found, place
        if (
            found.kind == "radios"
            and wanted == CHECKED
            and normalize_label(label) in map(normalize_label, found.options)
        ):
            return found, found.parts.index(control)
        raise Absent("no_such_option", option)

    def choose(self, label: str, option: str) -> None:
        """Choose an option by its visible text. Raises Absent."""
        found, place = self.option(label, option)
        found.choose(place)

    def text(self) -> str:
        """Text of the page, one line per block, without addresses: equal for equal seeds in every instance."""
        return "\n".join(_lines(self.document))[:LONGEST_TEXT]


def page_at(root: str, address: str, status: int, document: html.HtmlElement) -> Page:
    """Page of a parsed document at an address."""
    path = "/" + address.removeprefix(root) if address.startswith(root) else urlsplit(address).path
    return Page(status, path, address, root, document)


def parse_page(content: bytes, encoding: str | None) -> html.HtmlElement:
    """Parse an answer, which may also be empty, broken HTML, or not HTML."""
    try:
        parser = html.HTMLParser(encoding=encoding)
    except LookupError:
        parser = html.HTMLParser()
    try:
        return html.document_fromstring(content, parser=parser)
    except etree.ParserError:
        return html.document_fromstring(b"<html></html>")


def join_address(base: str, reference: str) -> str:
    """Absolute address of a reference on a page; empty if the reference is invalid."""
    try:
        return urljoin(base, reference)
    except ValueError:
        return ""


def enclosing_form(element: Any) -> Any:
    """Form around a control; None outside of forms."""
    return next(element.iterancestors("form"), None)


def element_text(element: Any) -> str:
    """Text of an element with normalized whitespace."""
    return _SPACE.sub(" ", str(element.text_content())).strip()


def caption_of(button: Any) -> str:
    """Caption of a button."""
    return spoken_text(button) if button.tag == "button" else str(button.get("value") or button.get("aria-label") or "")


def normalize_label(text: str) -> str:
    """A label normalized for comparison: without case, extra whitespace, and a colon or star at its end."""
    return _SPACE.sub(" ", text).strip().rstrip(":*").strip().casefold()


_BLOCKS: Final = ("title", "h1", "h2", "h3", "p", "li", "a", "label", "button", "td", "th", "dt", "dd", "option")
_SILENT: Final = frozenset({"option", "input", "select", "textarea"})


def _lines(document: html.HtmlElement) -> Iterator[str]:
    named = dict(unlabelled_controls(document))
    for element in document.iter(*_BLOCKS, *({"input", "select", "textarea"} if named else ())):
        if element in named:
            yield f"[label] {named[element]}"
        elif element.tag not in _SILENT and (words := _block_text(element)) and not _has_block(element):
            yield f"[{element.tag}] {words}" if element.tag in {"a", "label", "button"} else words


def _block_text(element: Any) -> str:
    return spoken_text(element) if element.tag in {"a", "button"} else element_text(element)


def _has_block(element: Any) -> bool:
    return any(child is not element and child.tag in _BLOCKS for child in element.iter())
