"""The MiniWoB++ tasks in use: a script solved each of them at many seeds from what an agent sees."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from ..contract import TaskText
from .errors import UnknownPage

SITE: Final = "miniwob"
Varies = Literal["answer", "places"]


@dataclass(frozen=True, slots=True)
class Task:
    """One page of MiniWoB++. `asks` is the instruction that all seeds share; the page states the rest.

    `varies` is what a seed changes: the answer, or only the positions of the elements to click.
    """

    name: str
    asks: str
    varies: Varies = "answer"

    @property
    def task_id(self) -> str:
        """Task id for the oracle, and name of the environment."""
        return f"{SITE}.{self.name}"

    def task_text(self) -> TaskText:
        """The task as reported by health."""
        return TaskText(task_id=self.task_id, instruction=self.asks)


_ALL: Final = (
    Task("click-button", "Click the button that the page names."),
    Task("click-button-sequence", "Click button ONE, then click button TWO.", "places"),
    Task("click-checkboxes", "Select the boxes that the page names and click Submit."),
    Task("click-checkboxes-transfer", "Select the boxes that the page names and click Submit."),
    Task("click-collapsible", "Expand the section below and click submit.", "places"),
    Task("click-collapsible-2", "Expand the sections to find the link that the page names, and click it."),
    Task("click-color", "Click the box of the color that the page names."),
    Task("click-dialog", 'Close the dialog box by clicking the "x".', "places"),
    Task("click-dialog-2", "Click the button in the dialog box that the page names."),
    Task("click-link", "Click the link that the page names."),
    Task("click-option", "Select the option that the page names and click Submit."),
    Task("click-tab", "Click the tab that the page names."),
    Task("click-tab-2", "Switch between the tabs to find the link that the page names, and click it."),
    Task("click-tab-2-easy", "Find the link that the page names in the tab, and click it."),
    Task("click-test", "Click the button.", "places"),
    Task("click-test-2", "Click button ONE.", "places"),
    Task("click-widget", "Click a widget of the kind that the page names."),
    Task("choose-list", "Select the item that the page names from the list and click Submit."),
    Task("enter-date", "Enter the date that the page names and press Submit."),
    Task("enter-password", "Enter the password that the page names into both text fields and press Submit."),
    Task("enter-text", "Enter the text that the page names into the text field and press Submit."),
    Task("enter-text-2", "Type the text that the page names in the letters it asks for, and press Submit."),
    Task("enter-text-dynamic", "Enter the text that the page names into the text field and press Submit."),
    Task("enter-time", "Enter the time that the page names and press Submit."),
    Task("find-word", "Type the word of the paragraph that the page asks for, and press Submit."),
    Task("focus-text", "Focus into the textbox.", "places"),
    Task("focus-text-2", "Focus into the textbox that the page names."),
    Task("form-sequence-2", "Check the radio button and fill the textbox that the page names, and submit."),
    Task("grid-coordinate", "Click the grid coordinate that the page names."),
    Task("login-user", "Enter the username and the password that the page names, and press Login."),
    Task("login-user-popup", "Log in as the page says; a popup may come in between."),
    Task("read-table", "Enter the value of the table that the page asks for, and press Submit."),
    Task("read-table-2", "Enter the values of the table that the labels ask for, and press Submit."),
    Task("simple-algebra", "Solve for x, type the answer, and press Submit."),
    Task("simple-arithmetic", "Solve the math problem, type the answer, and press Submit."),
    Task("text-transform", "Type the distorted text into the text field and press Submit."),
    Task("unicode-test", "Click the button that the page names."),
)
TASKS: Final[Mapping[str, Task]] = {task.name: task for task in _ALL}
"""Name -> task."""


def task_named(name: str) -> Task:
    """Task by name, with or without the prefix `miniwob.`. Raises UnknownPage."""
    found = TASKS.get(name.removeprefix(f"{SITE}."))
    if found is None:
        raise UnknownPage(actual=name, expected=", ".join(sorted(TASKS)))
    return found
