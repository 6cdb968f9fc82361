"""An agent's view of a page: the instruction, and the visible elements with their boxes in window pixels. Pure."""

from __future__ import annotations

from typing import Final

from ..clients.pages import normalize_label
from ..contract import Answer

FIELDS: Final = frozenset({"input", "textarea", "select"})
CLICKED: Final = frozenset({"a", "button", "h3", "label", "span"})
"""Tags that a person clicks for the words in them, besides fields."""


class VisibleElement(Answer):
    """One visible element: its kind (HTML tag), box (left, top, width, height), point to click, and appearance."""

    kind: str
    box: tuple[int, int, int, int]
    at: tuple[int, int]
    type: str = ""
    text: str = ""
    label: str = ""
    value: str = ""
    color: str = ""
    options: tuple[str, ...] = ()
    is_checked: bool = False
    is_enabled: bool = True
    is_focused: bool = False

    @property
    def is_field(self) -> bool:
        """True if it takes text or a choice."""
        return self.kind in FIELDS

    def line(self, name: str = "") -> str:
        """The element in one line; `name` is the name of a field."""
        left, top, width, height = self.box
        kind = f"{self.kind}:{self.type}" if self.type else self.kind
        words = [f'"{self.text}"' if self.text else "", f"({name})" if name else "", self.color]
        words += [f"= {self.value!r}" if self.value else "", f"[{' | '.join(self.options)}]" if self.options else ""]
        words += [word for word, holds in self._states() if holds]
        return " ".join([f"{left},{top} {width}x{height} {kind}", *filter(None, words)])

    def _states(self) -> tuple[tuple[str, bool], ...]:
        return ("checked", self.is_checked), ("disabled", not self.is_enabled), ("focused", self.is_focused)


class View(Answer):
    """Current view of a page: its instruction, and everything visible in page order."""

    instruction: str
    shown: tuple[VisibleElement, ...]

    def text(self) -> str:
        """The view as text: the instruction, then one line for each visible element."""
        names = {id(field): name for name, field in self.named_fields()}
        return "\n".join([self.instruction, *(each.line(names.get(id(each), "")) for each in self.shown)])

    def named_fields(self) -> tuple[tuple[str, VisibleElement], ...]:
        """Fields with their names: their own label, the words right before them, or `field 2`."""
        found: list[tuple[str, VisibleElement]] = []
        before = ""
        for each in self.shown:
            if each.is_field:
                found.append((each.label or before or f"field {len(found) + 1}", each))
            before = "" if each.is_field or each.kind == "button" else each.text.rstrip(":")
        return tuple(found)

    def fields(self, *types: str) -> tuple[VisibleElement, ...]:
        """Fields, only of these types if any are given."""
        return tuple(each for each in self.shown if each.is_field and (not types or each.type in types))

    def field(self, name: str) -> VisibleElement | None:
        """Field with this name."""
        return next((field for called, field in self.named_fields() if called == name), None)

    def field_called(self, label: str) -> VisibleElement | None:
        """Field with this name, compared without case, extra whitespace and a colon at the end."""
        return next(
            (field for called, field in self.named_fields() if normalize_label(called) == normalize_label(label)), None
        )

    def find_target(self, label: str) -> VisibleElement | None:
        """Element that a label means: one with exactly this text, else a field so named, else one to click with it."""
        wanted = f" {normalize_label(label)} "
        clicked = [each for each in self.shown if each.kind in CLICKED]
        return (
            self.with_text(label)
            or next((each for each in clicked if normalize_label(each.text) == normalize_label(label)), None)
            or self.field_called(label)
            or next((each for each in clicked if wanted.strip() and wanted in f" {normalize_label(each.text)} "), None)
        )

    def with_text(self, text: str) -> VisibleElement | None:
        """Element with exactly this text: of several, one that can be clicked, else the last."""
        found = [each for each in self.shown if each.text == text]
        return max(found, key=lambda each: each.kind in {"button", "a", "span"}, default=None)
