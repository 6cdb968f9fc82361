"""Names of controls on a page, as assistive technology reads them, and the choices of boxes and radio buttons. Pure.

A control without a label is named by `aria-labelledby`, `aria-label`, `placeholder`, `title` or `name`, whichever comes
first (after https://www.w3.org/TR/accname-1.2/). A checkbox is a choice between two options, and the radio buttons of
one name in one form are one choice between their own names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

CHECKED: Final = "checked"
NOT_CHECKED: Final = "not checked"

_SPACE: Final = re.compile(r"\s+")
_NAMING: Final = ("aria-label", "placeholder", "title", "name")
_CONTROLS: Final = ("input", "select", "textarea")
_NEVER_SET: Final = frozenset({"hidden", "submit", "button", "image", "reset", "file"})

ChoiceKind = Literal["list", "box", "radios"]


@dataclass(frozen=True, slots=True)
class ChoiceControl:
    """A control with options: a list, a box, or radio buttons. `parts` are the elements that its options stand for.

    A box has itself as the part of both options, `checked` first.
    """

    kind: ChoiceKind
    element: Any
    parts: tuple[Any, ...]
    options: tuple[str, ...]

    @property
    def chosen_option(self) -> str:
        """The option that is set; "" if none is."""
        if self.kind == "box":
            return CHECKED if self.element.get("checked") is not None else NOT_CHECKED
        mark = "selected" if self.kind == "list" else "checked"
        found = next((place for place, part in enumerate(self.parts) if part.get(mark) is not None), None)
        if found is None:
            return self.options[0] if self.kind == "list" and self.options else ""
        return self.options[found]

    def choose(self, place: int) -> None:
        """Set the option at this place in the document."""
        mark = "selected" if self.kind == "list" else "checked"
        for part in self.parts:
            part.attrib.pop(mark, None)
        if self.kind != "box" or self.options[place] == CHECKED:
            self.parts[place].set(mark, mark)


def choice_of(document: Any, element: Any) -> ChoiceControl | None:
    """The choice that a control is; None for a field that is written into."""
    if element.tag == "select":
        options = tuple(element.iter("option"))
        return ChoiceControl("list", element, options, tuple(_words(each.text_content()) for each in options))
    match _type_of(element):
        case "checkbox":
            return ChoiceControl("box", element, (element, element), (CHECKED, NOT_CHECKED))
        case "radio":
            members = radios_beside(document, element)
            return ChoiceControl("radios", members[0], members, tuple(own_name(document, each) for each in members))
    return None


def radios_beside(document: Any, element: Any) -> tuple[Any, ...]:
    """The radio buttons of an element's group, itself included, in page order."""
    if not element.get("name"):
        return (element,)
    form = _form_of(element)
    around = document if form is None else form
    return tuple(
        each
        for each in around.iter("input")
        if _type_of(each) == "radio" and each.get("name") == element.get("name") and _form_of(each) is form
    )


def unlabelled_controls(document: Any) -> Iterator[tuple[Any, str]]:
    """Controls that no label names, with the name that they have otherwise, in page order.

    Radio buttons come once, as their first, under the name of their group. Controls without any name are left out.
    """
    labels = labels_of(document)
    for element in document.iter(*_CONTROLS):
        kind = _type_of(element)
        if (element.tag == "input" and kind in _NEVER_SET) or element.get("hidden") is not None:
            continue
        if kind == "radio":
            if radios_beside(document, element)[0] is element and (name := _group_name(document, element)):
                yield element, name
        elif element not in labels and (name := _attributed_name(document, element)):
            yield element, name


def own_name(document: Any, element: Any) -> str:
    """Name of one control: its label's text, else what its attributes say; for a radio button also its value."""
    label = labels_of(document).get(element)
    words = "" if label is None else label_text(label)
    return words or _attributed_name(document, element, without=("name",)) or str(element.get("value") or "")


def labels_of(document: Any) -> dict[Any, Any]:
    """The label of each control that has one."""
    found: dict[Any, Any] = {}
    for label in document.iter("label"):
        control = labelled_control(document, label)
        if control is not None:
            found.setdefault(control, label)
    return found


def labelled_control(document: Any, label: Any) -> Any:
    """Control of a label element; None if it has none."""
    target = label.get("for")
    return label.find(".//*[@name]") if target is None else document.get_element_by_id(target, None)


def label_text(label: Any) -> str:
    """Text of a label, without the content of controls inside it."""
    own = label.xpath(".//text()[not(ancestor::select or ancestor::textarea or ancestor::button)]")
    return _words("".join(map(str, own)))


def spoken_text(element: Any) -> str:
    """Text of a link or button; if it shows none, its `aria-label`, its `title` or the text of its picture."""
    words = _words(element.text_content())
    if words:
        return words
    pictures = (str(each.get("alt") or "") for each in element.iter("img"))
    said = (str(element.get("aria-label") or ""), str(element.get("title") or ""), *pictures)
    return next((found for each in said if (found := _words(each))), "")


def _attributed_name(document: Any, element: Any, *, without: Sequence[str] = ()) -> str:
    referred = _referred_text(document, element)
    said = (str(element.get(name) or "") for name in _NAMING if name not in without)
    return next((found for each in (referred, *said) if (found := _words(each))), "")


def _referred_text(document: Any, element: Any) -> str:
    named = (document.get_element_by_id(each, None) for each in str(element.get("aria-labelledby") or "").split())
    return " ".join(str(each.text_content()) for each in named if each is not None)


def _group_name(document: Any, radio: Any) -> str:
    """Name of a group of radio buttons: its legend, else what names the element around it, else their `name`."""
    for around in radio.iterancestors("fieldset", "div", "section", "p", "ul", "form"):
        legend = around.find("./legend") if around.tag == "fieldset" else None
        if legend is not None:
            return _words(legend.text_content())
        if around.get("role") == "radiogroup" or around.tag == "fieldset":
            return _attributed_name(document, around) or str(radio.get("name") or "")
    return str(radio.get("name") or "")


def _form_of(element: Any) -> Any:
    return next(element.iterancestors("form"), None)


def _type_of(element: Any) -> str:
    return str(element.get("type") or "").lower() if element.tag == "input" else ""


def _words(text: object) -> str:
    return _SPACE.sub(" ", str(text)).strip()
