"""Plans for MiniWoB++ tasks, as a person would write them from the instruction without seeing the page.

Slots stand for the values of an instance and are filled from its own instruction (agents/executors/slots.py). Tasks
whose answer must be worked out from the page, such as a sum or a row of a table, have no plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from eventlog.events import Step

_SUBMIT: Final = Step(type="submit", intent="submit", label="Submit")
_TEXT: Final = Step(type="fill_field", intent="enter the text", label="Text field", value="{quoted}")
_LOG_IN: Final = (
    Step(type="fill_field", intent="enter the username", label="Username", value="{quoted}"),
    Step(type="fill_field", intent="enter the password", label="Password", value="{quoted:2}"),
    Step(type="submit", intent="log in", label="Login"),
)


def _click(intent: str, label: str) -> Step:
    return Step(type="click", intent=intent, label=label)


PLANS: Final[Mapping[str, tuple[Step, ...]]] = {
    "choose-list": (
        Step(type="select_option", intent="choose from the list", label="List", value="{between:Select...from}"),
        _SUBMIT,
    ),
    "click-button": (_click("click the button", "{quoted}"),),
    "click-button-sequence": (_click("click the first button", "ONE"), _click("click the second button", "TWO")),
    "click-collapsible": (_click("expand the section", "Section"), _SUBMIT),
    "click-collapsible-2": (_click("expand a section", "Section"), _click("click the link inside", "{quoted}")),
    "click-dialog": (_click("close the dialog box", "x"),),
    "click-dialog-2": (_click("click the button in the dialog box", "{quoted}"),),
    "click-link": (_click("click the link", "{quoted}"),),
    "click-option": (_click("select the option", "{between:Select...and}"), _SUBMIT),
    "click-tab": (_click("click the tab", "{after:on}"),),
    "click-tab-2": (_click("click the link in the tabs", "{quoted}"),),
    "click-tab-2-easy": (_click("click the link in the tabs", "{quoted}"),),
    "click-test": (_click("click the button", "Button"),),
    "click-test-2": (_click("click button ONE", "ONE"),),
    "enter-date": (
        Step(type="fill_field", intent="enter the date", label="Date", value="{between:Enter...as}"),
        _SUBMIT,
    ),
    "enter-password": (
        Step(type="fill_field", intent="enter the password", label="Password", value="{quoted}"),
        Step(type="fill_field", intent="enter the password again", label="Confirm password", value="{quoted}"),
        _SUBMIT,
    ),
    "enter-text": (_TEXT, _SUBMIT),
    "enter-text-dynamic": (_TEXT, _SUBMIT),
    "enter-time": (
        Step(type="fill_field", intent="enter the time", label="Time", value="{between:Enter...as}"),
        _SUBMIT,
    ),
    "focus-text": (_click("focus into the textbox", "Textbox"),),
    "focus-text-2": (_click("focus into the textbox", "Textbox {number}"),),
    "form-sequence-2": (
        _click("check the radio button", "Radio button {number}"),
        Step(type="fill_field", intent="enter the number", label="Textbox {number:3}", value="{quoted}"),
        _SUBMIT,
    ),
    "login-user": _LOG_IN,
    "login-user-popup": _LOG_IN,
    "unicode-test": (_click("click the button", "{quoted}"),),
}
"""Task -> plan."""
