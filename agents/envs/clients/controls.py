"""Controls of a page by their names: links, buttons, fields, choices, boxes. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from eventlog.events import Step

from .names import choice_of, label_text, labelled_control, unlabelled_controls
from .pages import Page, caption_of, enclosing_form, normalize_label

ControlKind = Literal["link", "button", "field", "choice", "box"]


@dataclass(frozen=True, slots=True)
class Control:
    """One control. `form` is the number of its form on the page, None outside of forms.

    `path` is where a link leads, from the instance's root; "" if that is unknown. `options` are those of a choice or a
    box, `value` is a field's content or the chosen option. Radio buttons are one choice. `is_named` is False if the
    page gives the control no name, and its label only counts its position.
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
    named = dict(unlabelled_controls(page.document))
    for element in page.document.iter("label", "button", "input", "select", "textarea"):
        if element.tag == "label":
            control = labelled_control(page.document, element)
            if control is not None and control.get("type") != "radio":
                yield _field(page, label_text(element), control, forms.get(enclosing_form(control)))
        elif element in named:
            yield _field(page, named[element], element, forms.get(enclosing_form(element)))
        elif element.tag == "button" or element.get("type") == "submit":
            form = forms.get(enclosing_form(element))
            if (caption := caption_of(element)) and form is not None:
                yield Control("button", caption, form)


def _field(page: Page, caption: str, control: Any, form: int | None) -> Control:
    name, choice = caption.rstrip(":* "), choice_of(page.document, control)
    if choice is None:
        return Control("field", name, form, value=str(control.get("value") or "") if control.tag == "input" else "")
    kind: ControlKind = "box" if choice.kind == "box" else "choice"
    return Control(kind, name, form, options=choice.options, value=choice.chosen_option)


def offers(shown: Sequence[Control], step: Step) -> bool:
    """True if the control that a step names is present, or if the step names none."""
    wanted = normalize_label(step.label or "")
    match step.type:
        case "click":
            return any(wanted in normalize_label(each.label) for each in shown if each.kind == "link")
        case "submit":
            return any(wanted == normalize_label(each.label) for each in shown if each.kind == "button")
        case "fill_field" | "select_option":
            return any(
                wanted == normalize_label(each.label) for each in shown if each.kind in {"field", "choice", "box"}
            )
        case _:
            return True
