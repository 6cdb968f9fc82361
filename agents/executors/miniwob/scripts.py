"""Rule-based scripts, one for each task of MiniWoB++. Pure.

A script is given a view, yields a step, and is sent the view after it. It uses only what is visible.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Mapping
from functools import partial
from typing import Final, TypeVar

from eventlog.events import Step

from ...envs.miniwob.view import View, VisibleElement

T = TypeVar("T")
Solving = Generator[Step, View, None]
Script = Callable[[View], Solving]


class Lost(Exception):
    """An element that a script needs is not visible."""


def _one(found: Iterable[T]) -> T:
    for first in found:
        return first
    raise Lost


def _match_instruction(view: View, pattern: str) -> tuple[str, ...]:
    """The groups of a pattern in the instruction."""
    return _one(found.groups() for found in re.finditer(pattern, view.instruction))


def _match_page(view: View, pattern: str) -> tuple[str, ...]:
    """The groups of a pattern in the first visible text that matches it in full."""
    return _one(found.groups() for each in view.shown if (found := re.fullmatch(pattern, each.text)))


def _quotes(view: View) -> list[str]:
    return re.findall(r'"([^"]*)"', view.instruction)


def _click(shown: VisibleElement) -> Step:
    return Step(type="click_at", intent="click", value="{},{}".format(*shown.at))


def _type(text: str) -> Step:
    return Step(type="fill_field", intent="type", value=text)


def _into(view: View, place: int, *types: str) -> Step:
    """A click into the field at a place, counted from 0 down the page."""
    return _click(_one(view.fields(*types)[place:]))


def _press(view: View, words: str) -> Step:
    return _click(_one(each for each in [view.with_text(words)] if each is not None))


def click_words(view: View, *words: str) -> Solving:
    """Click the elements with these texts, one after another."""
    for each in words:
        view = yield _press(view, each)


def click_quoted(view: View) -> Solving:
    """Click the element that the instruction quotes; `x` stands for the Close button."""
    quoted = _quotes(view)[0]
    yield _press(view, "Close" if quoted == "x" else quoted)


def click_tab(view: View) -> Solving:
    """Click the tab with the number."""
    yield _press(view, _match_instruction(view, r"(Tab #\d)")[0])


def _search(view: View, openers: str) -> Solving:
    """Open sections or tabs until the quoted link is visible, and click it."""
    link = _quotes(view)[0]
    for opener in [each.text for each in view.shown if each.text.startswith(openers)]:
        if view.with_text(link) is not None:
            break
        view = yield _press(view, opener)
    yield _press(view, link)


def check_boxes(view: View) -> Solving:
    """Check every box that is named, and submit."""
    named = _match_instruction(view, r"Select (.*) and click Submit")[0]
    for name in [] if named == "nothing" else named.split(", "):
        view = yield _click(_one(each for called, each in view.named_fields() if called == name))
    yield _press(view, "Submit")


def expand(view: View) -> Solving:
    """Open the section, and submit."""
    view = yield _click(_one(each for each in view.shown if each.text.startswith("Section #")))
    yield _press(view, "Submit")


COLORS: Final[Mapping[str, str]] = {
    "red": "rgb(255, 0, 0)",
    "blue": "rgb(0, 0, 255)",
    "olive": "rgb(128, 128, 0)",
    "lime": "rgb(0, 255, 0)",
    "black": "rgb(0, 0, 0)",
    "white": "rgb(255, 255, 255)",
    "grey": "rgb(128, 128, 128)",
    "purple": "rgb(128, 0, 128)",
    "orange": "rgb(255, 165, 0)",
    "yellow": "rgb(255, 255, 0)",
    "cyan": "rgb(0, 255, 255)",
    "pink": "rgb(255, 192, 203)",
    "magenta": "rgb(255, 0, 255)",
}


def click_color(view: View) -> Solving:
    """Click the box of the color."""
    color = COLORS[_match_instruction(view, r"on the (\w+) colored")[0]]
    yield _click(_one(each for each in view.shown if each.color == color))


def click_widget(view: View) -> Solving:
    """Click a control of the kind."""
    kind = _quotes(view)[0]
    yield _click(_one(each for each in view.shown if kind in (each.type, each.kind)))


def choose_item(view: View) -> Solving:
    """Choose the item, and submit."""
    item = _match_instruction(view, r"Select (.*) from the list")[0]
    name = next((name for name, each in view.named_fields() if each.kind == "select"), None)
    view = yield Step(type="select_option", intent="choose", label=name, value=item)
    yield _press(view, "Submit")


def _enter(view: View, *texts: str, button: str = "Submit") -> Solving:
    """Type each text into its field, in the order of the page, and press the button. A popup is cancelled."""
    for place, text in enumerate(texts):
        view = yield _into(view, place)
        if view.with_text("Cancel") is not None:
            view = yield _press(view, "Cancel")
            view = yield _into(view, place)
        view = yield _type(text)
    yield _press(view, button)


def enter_quoted(view: View, times: int = 1) -> Solving:
    """Type the quoted text."""
    yield from _enter(view, *_quotes(view)[:1] * times)


def enter_cased(view: View) -> Solving:
    """Type the quoted text in upper or lower case, as asked."""
    text = _quotes(view)[0]
    yield from _enter(view, text.upper() if "upper case" in view.instruction else text.lower())


def _enter_parts(view: View, digits: str) -> Solving:
    """Type into a field of parts, from the left; then submit."""
    left, top, _, height = _one(view.fields()).box
    view = yield Step(type="click_at", intent="click", value=f"{left + 8},{top + height // 2}")
    view = yield _type(digits)
    yield _press(view, "Submit")


def enter_date(view: View) -> Solving:
    """Type the date: month, day, year."""
    yield from _enter_parts(view, "".join(_match_instruction(view, r"(\d+)/(\d+)/(\d+)")))


def enter_time(view: View) -> Solving:
    """Type the time: hour, minute, half of the day."""
    hour, minute, half = _match_instruction(view, r"(\d+):(\d+)\W+([AP]M)")
    yield from _enter_parts(view, f"{int(hour):02}{minute}{half}")


def log_in(view: View, button: str = "Login") -> Solving:
    """Type username and password, and press the button."""
    yield from _enter(view, *_quotes(view)[:2], button=button)


def find_word(view: View) -> Solving:
    """Type the word of the paragraph that is asked for, without its punctuation."""
    words = _one(each for each in view.shown if each.kind == "p").text.split()
    word = words[int(_match_instruction(view, r"(\d+)\w\w word")[0]) - 1]
    yield from _enter(view, re.sub(r"[^a-zA-Z]", "", word))


def focus(view: View) -> Solving:
    """Click into the field, or into the one that is asked for."""
    ordinal = re.search(r"(\d)(st|nd|rd)", view.instruction)
    yield _into(view, int(ordinal[1]) - 1 if ordinal else 0)


def fill_form(view: View) -> Solving:
    """Check one radio button, fill one textbox, and submit."""
    radio, number, textbox = _match_instruction(
        view, r'the (\d)\w\w radio button and enter the number "(-?\d+)" into the (\d)\w\w'
    )
    view = yield _into(view, int(radio) - 1, "radio")
    view = yield _into(view, int(textbox) - 1, "text")
    view = yield _type(number)
    yield _press(view, "Submit")


def click_coordinate(view: View) -> Solving:
    """Click the circle at the coordinate: the middle of the grid is the origin, and up is positive."""
    x, y = map(int, _match_instruction(view, r"\((-?\d),(-?\d)\)"))
    circles = [each for each in view.shown if each.kind == "circle"]
    columns = sorted({each.at[0] for each in circles})
    rows = sorted({each.at[1] for each in circles}, reverse=True)
    yield _click(_one(c for c in circles if (columns.index(c.at[0]) - 2, rows.index(c.at[1]) - 2) == (x, y)))


def _table(view: View) -> dict[str, str]:
    cells = [each.text for each in view.shown if each.kind == "td"]
    return dict(zip(cells[::2], cells[1::2], strict=True))


def read_table(view: View) -> Solving:
    """Type the value of the row that is asked for."""
    yield from _enter(view, _table(view)[_match_instruction(view, r"value of (.*) into")[0]])


def read_table_twice(view: View) -> Solving:
    """Type the values of the rows that the labels name."""
    table = _table(view)
    yield from _enter(view, *(table[name] for name, _ in view.named_fields()))


def calculate(view: View) -> Solving:
    """Type the result."""
    left, sign, right = _match_page(view, r"(\d) ([-+x]) (\d) =")
    first, second = int(left), int(right)
    yield from _enter(view, str({"+": first + second, "-": first - second, "x": first * second}[sign]))


def solve_for_x(view: View) -> Solving:
    """Type the x of `x + 2 = 43`, `2 - x = 43` and the like."""
    first, sign, second, outcome = _match_page(view, r"(\w+) ([-+]) (\w+) = (\d+)")
    result = int(outcome)
    if sign == "+":
        answer = result - int(second if first == "x" else first)
    else:
        answer = result + int(second) if first == "x" else int(first) - result
    yield from _enter(view, str(answer))


def read_letters(view: View) -> Solving:
    """Type the letters from left to right."""
    letters = sorted((each for each in view.shown if each.kind == "span"), key=lambda each: each.box)
    yield from _enter(view, "".join(each.text for each in letters))


SCRIPTS: Final[Mapping[str, Script]] = {
    "click-button": click_quoted,
    "click-button-sequence": lambda view: click_words(view, "ONE", "TWO"),
    "click-checkboxes": check_boxes,
    "click-checkboxes-transfer": check_boxes,
    "click-collapsible": expand,
    "click-collapsible-2": partial(_search, openers="Section #"),
    "click-color": click_color,
    "click-dialog": lambda view: click_words(view, "Close"),
    "click-dialog-2": click_quoted,
    "click-link": click_quoted,
    "click-option": check_boxes,
    "click-tab": click_tab,
    "click-tab-2": partial(_search, openers="Tab #"),
    "click-tab-2-easy": partial(_search, openers="Tab #"),
    "click-test": lambda view: click_words(view, "Click Me!"),
    "click-test-2": lambda view: click_words(view, "ONE"),
    "click-widget": click_widget,
    "choose-list": choose_item,
    "enter-date": enter_date,
    "enter-password": partial(enter_quoted, times=2),
    "enter-text": enter_quoted,
    "enter-text-2": enter_cased,
    "enter-text-dynamic": enter_quoted,
    "enter-time": enter_time,
    "find-word": find_word,
    "focus-text": focus,
    "focus-text-2": focus,
    "form-sequence-2": fill_form,
    "grid-coordinate": click_coordinate,
    "login-user": log_in,
    "login-user-popup": partial(log_in, button="OK"),
    "read-table": read_table,
    "read-table-2": read_table_twice,
    "simple-algebra": solve_for_x,
    "simple-arithmetic": calculate,
    "text-transform": read_letters,
    "unicode-test": click_quoted,
}
"""Task -> script."""
