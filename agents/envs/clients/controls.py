"""Controls of a page by their visible names: links, buttons, fields, choices. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from eventlog.events import Step

from .pages import Page, caption_of, element_text, enclosing_form, normalize_label

ControlKind = Literal["link", "button", "field", "choice"]


@dataclass(frozen=True, slots=True)
class Control:
    """One control. `form` is the number of its form on the page, None outside of forms.

    `path` is where a link leads, from the instance's root; "" if that is unknown. `options` are those of a choice,
    `value` is a field's content or the chosen option. `is_named` is False if the page gives the control no name, and
    its label only counts its position.
    """

    kind: ControlKind
    label: str
    form: int | None = None
    path: str = ""
    options: tuple[str, ...] = ()
    value: str = ""
    is_named: bool = True


def controls(page: Page) -> tuple[Control, ...]:
    """Controls of a page that steps can act on: links first, then forms, in page order."""
    return (*_links(page), *_in_forms(page))


def _links(page: Page) -> Iterator[Control]:
    for link in page.links():
        if link.text:
            yield Control("link", link.text, path=link.path)


def _in_forms(page: Page) -> Iterator[Control]:
    forms = {form: number for number, form in enumerate(page.document.iter("form"))}
    for element in page.document.iter("label", "button", "input"):
        if element.tag == "label":
            control = page.control_of(element)
            if control is not None:
                yield _field(caption_of(element), control, forms.get(enclosing_form(control)))
        elif element.tag == "button" or element.get("type") == "submit":
            caption = element_text(element) if element.tag == "button" else str(element.get("value") or "")
            form = forms.get(enclosing_form(element))
            if caption and form is not None:
                yield Control("button", caption, form)


def _field(caption: str, control: Any, form: int | None) -> Control:
    name = caption.rstrip(":* ")
    if control.tag != "select":
        return Control("field", name, form, value=str(control.get("value") or "") if control.tag == "input" else "")
    options = tuple(control.iter("option"))
    chosen = next((each for each in options if each.get("selected") is not None), options[0] if options else None)
    shown = tuple(element_text(each) for each in options)
    return Control("choice", name, form, options=shown, value="" if chosen is None else element_text(chosen))


def offers(shown: Sequence[Control], step: Step) -> bool:
    """True if the control that a step names is present, or if the step names none."""
    wanted = normalize_label(step.label or "")
    match step.type:
        case "click":
            return any(wanted in normalize_label(each.label) for each in shown if each.kind == "link")
        case "submit":
            return any(wanted == normalize_label(each.label) for each in shown if each.kind == "button")
        case "fill_field" | "select_option":
            return any(wanted == normalize_label(each.label) for each in shown if each.kind in {"field", "choice"})
        case _:
            return True
