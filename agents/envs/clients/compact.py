"""Compact view of a page for a model: one line per heading, text, link, field or button, in page order. Pure.

Controls are named as in the steps of plans; a checkbox is a choice between `checked` and `not checked`. Addresses are
paths from the instance's root, so the same seed gives the same bytes in every instance.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from .names import ChoiceControl, choice_of, label_text, labelled_control, unlabelled_controls
from .pages import Link, Page, caption_of, element_text, enclosing_form, normalize_label

LONGEST_VIEW: Final = 6_000
"""Characters of a view, without the line that counts dropped lines. Controls and headings fill it first, then text."""

LONGEST_LINE: Final = 300
MOST_OPTIONS: Final = 40

_SPACE: Final = re.compile(r"\s+")
_UNSEEN: Final = frozenset({"head", "title", "script", "style", "template", "noscript", "select", "textarea", "svg"})
_CELLS: Final = frozenset({"td", "th", "dd"})
_INLINE: Final = frozenset(
    {"a", "abbr", "b", "code", "em", "i", "label", "mark", "s", "small", "span", "strong", "sub", "sup", "time", "u"}
)
_HEADINGS: Final = {"h1": "# ", "h2": "## ", "h3": "### ", "h4": "### "}
_BETWEEN_CELLS: Final = " | "


@dataclass(frozen=True, slots=True)
class _Line:
    """A line of a view. Lines that are not `is_kept` may be dropped if the view grows too long."""

    text: str
    is_kept: bool


_Part = str | _Line | None
"""Running text, a separate line, or None for the end of a line."""


def compact_view(page: Page, longest: int = LONGEST_VIEW) -> str:
    """View of a page: path, status and title, then its lines, and the number of dropped lines."""
    title = page.document.find(".//title")
    head = [f"page {page.path}, status {page.status}"]
    if title is not None and element_text(title):
        head.append(f"title: {element_text(title)[:LONGEST_LINE]}")
    anchors = list(page.anchors())
    names = Counter(normalize_label(link.text) for _, link in anchors)
    shown = {element: _link(link, names) for element, link in anchors}
    shown |= {control: _field(page, name, control) for control, name in unlabelled_controls(page.document)}
    lines = list(_lines(_parts(page.document, page, shown)))
    return "\n".join([*head, *_fit_lines(lines, longest - sum(len(line) + 1 for line in head))])


def _fit_lines(lines: Sequence[_Line], longest: int) -> Iterator[str]:
    """Lines that fit, in page order; kept lines are chosen first."""
    chosen: set[int] = set()
    left = longest
    for place in sorted(range(len(lines)), key=lambda place: (not lines[place].is_kept, place)):
        if len(lines[place].text) < left:
            chosen.add(place)
            left -= len(lines[place].text) + 1
    yield from (line.text for place, line in enumerate(lines) if place in chosen)
    if len(chosen) < len(lines):
        yield f"({len(lines) - len(chosen)} more lines are not shown)"


def _lines(parts: Iterator[_Part]) -> Iterator[_Line]:
    """Join running text into lines."""
    running = ""
    for part in parts:
        if isinstance(part, str):
            running += part
            continue
        words = _SPACE.sub(" ", running).strip().strip("|").strip()
        running = ""
        if words:
            yield _Line(words[:LONGEST_LINE], is_kept=False)
        if part is not None:
            yield part
    words = _SPACE.sub(" ", running).strip()
    if words:
        yield _Line(words[:LONGEST_LINE], is_kept=False)


def _parts(element: Any, page: Page, links: Mapping[Any, str]) -> Iterator[_Part]:
    """Parts of an element and of its descendants."""
    is_seen = isinstance(element.tag, str) and (element.tag not in _UNSEEN or element in links)
    if not is_seen or element.get("hidden") is not None:
        return
    line = _line(element, page, links)
    if line is not None:
        yield from [line] if line.text else []
        return
    is_block = element.tag not in _INLINE and element.tag not in _CELLS
    if is_block:
        yield None
    elif element.tag in _CELLS:
        yield _BETWEEN_CELLS
    yield element.text or ""
    for child in element:
        yield from _parts(child, page, links)
        yield child.tail or ""
    if is_block and element.tag != "dt":  # a term and its description share a line
        yield None


def _line(element: Any, page: Page, links: Mapping[Any, str]) -> _Line | None:
    """Line of a heading or control; an empty line for what is left out; None for any other element."""
    found: str | None = None
    match element.tag:
        case "a" | "select" | "textarea":
            found = links.get(element)
        case "label":
            found = _label(page, element, links)
        case "button":
            found = f"[button] {caption_of(element)}" if enclosing_form(element) is not None else ""
        case "input":
            is_button = element.get("type") == "submit" and enclosing_form(element) is not None
            found = links.get(element, f"[button] {caption_of(element)}" if is_button else "")
        case "h1" | "h2" | "h3" | "h4":
            found = f"{_HEADINGS[element.tag]}{element_text(element)}" if element.find(".//a") is None else None
    return None if found is None else _Line(found[:LONGEST_LINE] if element.tag != "label" else found, is_kept=True)


def _link(link: Link, names: Mapping[str, int]) -> str:
    """A link, with its path if its text does not identify it."""
    is_clear = bool(link.text) and names[normalize_label(link.text)] == 1
    return f"[link] {link.text}" if is_clear else f"[link] {link.text} -> {link.path}"


def _label(page: Page, label: Any, shown: Mapping[Any, str]) -> str | None:
    """The line of a label: its control. The first radio button of a group stands for all of them."""
    control = labelled_control(page.document, label)
    if control is None:
        return None
    if control.get("type") == "radio":
        return shown.get(control, "") if label in control.iterancestors("label") else ""
    return _field(page, label_text(label), control)


def _field(page: Page, caption: str, control: Any) -> str:
    """A field with its kind, its options and its current value."""
    name, choice = caption.rstrip(":* ")[:LONGEST_LINE], choice_of(page.document, control)
    if choice is not None:
        return _choice(name, choice)
    if control.tag == "textarea":
        holds = _SPACE.sub(" ", str(control.value or "")).strip()  # browsers drop the first line break of a textarea
        return f'[field] {name}: "{holds[:LONGEST_LINE]}"'
    kind = str(control.get("type") or "text")
    holds = "set" if kind == "password" and control.get("value") else str(control.get("value") or "")[:LONGEST_LINE]
    return f'[field] {name}: "{holds}"'


def _choice(name: str, choice: ChoiceControl) -> str:
    """A choice with what is chosen, and its options."""
    shown = [f'"{each[:LONGEST_LINE]}"' for each in choice.options[:MOST_OPTIONS]]
    more = f", and {len(choice.options) - MOST_OPTIONS} more" if len(choice.options) > MOST_OPTIONS else ""
    return f'[choice] {name}: "{choice.chosen_option[:LONGEST_LINE]}" of {", ".join(shown)}{more}'
