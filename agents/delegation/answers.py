"""Recover the JSON object in a model's answer: bare, in a code fence, within prose, or cut off. Pure."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal, NoReturn

How = Literal["strict", "fenced", "embedded", "truncated"]

MOST_CHARS: Final = 400_000
"""An answer is read up to here. The longest answer of a configured loop is far below."""

_STARTS: Final = 8
_CUTS: Final = 24
_DEEPEST: Final = 200
_FENCE: Final = re.compile(r"```(?:json|JSON)?[ \t]*\n(.*?)\n?[ \t]*```", re.DOTALL)


@dataclass(frozen=True, slots=True)
class RecoveredObject:
    """An object, and how it was found in the answer."""

    value: dict[str, Any]
    how: How


def recover_object(text: str) -> RecoveredObject | None:
    """The object in an answer, or None if it holds none. Never raises."""
    cut = text[:MOST_CHARS]
    for how, candidate in _candidates(cut):
        value = parse_object(candidate)
        if value is not None:
            return RecoveredObject(value, how)
    start = cut.find("{")
    for candidate in () if start < 0 else _balance_brackets(cut[start:]):
        value = parse_object(candidate)
        if value:
            return RecoveredObject(value, "truncated")
    return None


def parse_object(text: str) -> dict[str, Any] | None:
    """The object that a text is, or None. A number that is not finite makes no object."""
    try:
        value = json.loads(text, parse_constant=_refuse, parse_float=_finite)
        if "\\ud" in text.lower():  # half of a pair of escapes is no text: no event could hold it
            value = json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def parse_json(text: str) -> tuple[Any, bool]:
    """The value that a text is as JSON, and whether it is JSON. A number that is not finite makes none."""
    try:
        return json.loads(text, parse_constant=_refuse, parse_float=_finite), True
    except (ValueError, RecursionError):
        return None, False


def micro_of(value: object) -> int | None:
    """A confidence in millionths, clamped to [0, 1]; None if it is no number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return round(max(0.0, min(1.0, value)) * 1_000_000)


def _refuse(text: str) -> NoReturn:
    raise ValueError(text)


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


def _candidates(text: str) -> Iterator[tuple[How, str]]:
    yield "strict", text
    fenced = _FENCE.search(text)
    if fenced is not None:
        yield "fenced", fenced[1]
    start = text.find("{")
    for _ in range(_STARTS):
        if start < 0:
            return
        end = _balanced_end(text, start)
        if end is None:
            return
        yield "embedded", text[start:end]
        start = text.find("{", end)


def _balanced_end(text: str, start: int) -> int | None:
    """Index after the bracket that closes the one at `start`; None if none does."""
    depth, in_string, escaped = 0, False, False
    for index in range(start, len(text)):
        char = text[index]
        if in_string:
            in_string, escaped = (char != '"' or escaped), char == "\\" and not escaped
        elif char == '"':
            in_string, escaped = True, False
        elif char in "{[":
            depth += 1
        elif char in "}]":
            depth -= 1
            if depth == 0:
                return index + 1
    return None


def _balance_brackets(text: str) -> Iterator[str]:
    """The text cut after each of its last values, with every open bracket closed; the longest first."""
    cuts: list[tuple[int, str]] = []
    stack: list[str] = []
    in_string, escaped = False, False
    for index, char in enumerate(text):
        if in_string:
            in_string, escaped = (char != '"' or escaped), char == "\\" and not escaped
            if in_string:
                continue
        elif char == '"':
            in_string, escaped = True, False
            continue
        elif char in "{[":
            stack.append("}" if char == "{" else "]")
        elif char in "}]":
            if not stack or stack.pop() != char:
                break
        elif char != ",":
            continue
        end = index if char == "," else index + 1
        cuts = [*cuts[-_CUTS:], (end, "".join(reversed(stack)))] if len(stack) <= _DEEPEST else cuts
    for end, closers in reversed(cuts):
        yield text[:end] + closers
