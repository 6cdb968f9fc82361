"""Steps of a model's run in words, without what differs from seed to seed. Pure."""

from __future__ import annotations

import re
from typing import Final

from eventlog.events import Step, StepType

from .piece_content import page_pattern
from .quoting import clean_text

LONGEST_NAME: Final = 60
"""Most bytes of a label or value in a sentence."""

_TOKEN: Final = re.compile(r"\S*\d\S*")


def say_step(step: Step, instruction: str) -> str | None:
    """A step as an imperative sentence without a full stop; None if its words mean nothing elsewhere.

    Words with a digit are `*` unless the instruction has them: numbers of one instance. Labels and values come from
    pages, so they are cleaned, cut and quoted.
    """
    label, value = (_name(text, instruction) for text in (step.label, step.value))
    said: dict[StepType, str] = {
        "navigate": f"open {clean_text(page_pattern(step.url or '/'), LONGEST_NAME)}",
        "click": f"follow the link {label}",
        "fill_field": f"write {value} into {label}",
        "select_option": f"choose {value} at {label}",
        "submit": f"press the button {label}",
        "press_key": f"press the key {value}",
        "finish": "say that it is done",
        "act": f"take the action {step.label}" + (f" with {value}" if step.value else ""),
    }
    return said.get(step.type)


def _name(text: str | None, instruction: str) -> str:
    known = frozenset(word.strip(".,;:!?'\"“”()") for word in instruction.split())
    plain = clean_text(text or "", LONGEST_NAME)
    return f"'{_TOKEN.sub(lambda found: found[0] if found[0] in known else '*', plain)}'"
