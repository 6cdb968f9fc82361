"""Slots: placeholders in a plan, such as `{quoted}`, that an instance's instruction fills. Pure.

| slot | content |
|---|---|
| `{quoted}`, `{quoted:2}` | the first, the second text in double quotes |
| `{number}`, `{number:2}` | the first, the second whole number, also of `3rd` and `Tab #3` |
| `{after:WORDS}` | what follows these words, without the full stop at the end |
| `{between:WORDS...WORDS}` | what stands between these words and the next such words |

A label may name several controls, separated by ` | `: the first visible one is used.
"""

from __future__ import annotations

import re
from typing import Final

from eventlog.events import Step

EITHER: Final = " | "
_SLOT: Final = re.compile(r"\{(quoted|number|after|between)(?::([^{}]+))?\}")
_QUOTED: Final = re.compile(r'"([^"]*)"')
_NUMBER: Final = re.compile(r"-?\d+")


class Unfilled(Exception):
    """The instruction has nothing for this slot."""


def fill_slots(step: Step, instruction: str) -> Step:
    """The step for one instance: every slot of its label and value replaced. Raises Unfilled."""
    label = None if step.label is None else fill(step.label, instruction)
    value = None if step.value is None else fill(step.value, instruction)
    return step.model_copy(update={"label": label, "value": value})


def fill(text: str, instruction: str) -> str:
    """A text with every slot replaced. Raises Unfilled."""
    return _SLOT.sub(lambda slot: _content(slot[1], slot[2] or "", instruction), text)


def slots_of(text: str) -> tuple[str, ...]:
    """Distinct slots of a text, as written."""
    return tuple(dict.fromkeys(slot[0] for slot in _SLOT.finditer(text)))


def either(*labels: str) -> str:
    """One label for several controls, of which the first visible one is used."""
    return EITHER.join(dict.fromkeys(labels))


def _content(kind: str, told: str, instruction: str) -> str:
    match kind:
        case "quoted" | "number":
            found = (_QUOTED if kind == "quoted" else _NUMBER).findall(instruction)
            place = int(told) if told.isdecimal() else 1
            if 0 < place <= len(found) and (told.isdecimal() or not told):
                return str(found[place - 1])
        case "after":
            _, words, rest = instruction.partition(f"{told} ")
            if told and words:
                return rest.strip().removesuffix(".")
        case _:
            begin, _, end = told.partition("...")
            found = re.findall(f"{re.escape(begin)} (.+?) {re.escape(end)}(?!\\w)", instruction)
            if begin and end and found:
                return str(found[0])
    raise Unfilled(f"{kind}:{told}")
