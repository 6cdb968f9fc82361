"""Files that people write or edit: bounds that are checked before they are parsed, and the line of a fault."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from eventlog.errors import FlywheelError

from .envs.addresses import fault_of_path

Place = tuple[str | int, ...]
"""The way to a value in a file: names of fields, and indices of lists."""

MOST_BYTES: Final = 16 * 2**20
MOST_STEPS: Final = 10_000
"""The most bytes of a file, and the most steps in all of its plans and pieces."""

_DECODER: Final = json.JSONDecoder()
_SPACE: Final = re.compile(r"[ \t\n\r]*")
_TOML_TOKEN: Final = re.compile(r"\"(?:\\.|[^\"\\\n])*\"|'[^'\n]*'|#[^\n]*|[\[\]{},]")
_LISTS_OF_STEPS: Final = frozenset({"steps", "plan_steps", "then"})
_ADDRESSES: Final = frozenset({"url", "page"})


class FileTooLarge(FlywheelError):
    """The file {file} has {actual}: expected at most {expected}. Divide it into several files."""

    is_usage = True


def read_edited(file: Path, most_bytes: int = MOST_BYTES) -> str:
    """The text of a file. Raises FileTooLarge without reading more than `most_bytes`, OSError, UnicodeDecodeError."""
    with file.open("rb") as opened:
        content = opened.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise FileTooLarge(file=file, actual=f"more than {most_bytes} bytes", expected=f"{most_bytes} bytes")
    return content.decode("utf-8")


def count_steps(facts: object) -> int:
    """The number of steps in parsed JSON, in lists named `steps`, `plan_steps` or `then` at any depth."""
    number, waiting = 0, [facts]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            number += sum(
                len(each) for name, each in part.items() if name in _LISTS_OF_STEPS and isinstance(each, list)
            )
        waiting += part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
    return number


def first_bad_address(facts: object, place: Place = ()) -> tuple[Place, str] | None:
    """The first `url` or `page` in parsed JSON that leads out of a site, and why; None if there is none."""
    if isinstance(facts, dict | list):
        for name, each in facts.items() if isinstance(facts, dict) else enumerate(facts):
            there = (*place, name)
            if name in _ADDRESSES and isinstance(each, str):
                fault = fault_of_path(each)
                found = None if fault is None else (there, fault)
            else:
                found = first_bad_address(each, there)
            if found is not None:
                return found
    return None


def locate_fault(error: ValidationError, text: str, *, is_toml: bool = False) -> str:
    """The first fault that a validation found in a text: its line, its field, and what is wrong."""
    fault = error.errors(include_url=False, include_context=False, include_input=False)[0]
    return locate_problem(fault["loc"], fault["msg"], text, is_toml=is_toml)


def locate_problem(place: Sequence[str | int], problem: str, text: str, *, is_toml: bool = False) -> str:
    """A problem after the line and the field that it concerns; without a place it concerns the whole file."""
    return f"{locate_field(place, text, is_toml=is_toml) if place else 'the file'}: {problem}"


def locate_field(place: Sequence[str | int], text: str, *, is_toml: bool = False) -> str:
    """The line of a field in a text, and the field by the names that lead to it."""
    line = (_line_in_toml if is_toml else _line_in_json)(text, place)
    return f"line {line}, {'.'.join(map(str, place))}"


def _line_in_json(text: str, place: Sequence[str | int]) -> int:
    """The line where a value begins. Parts of a place that the text lacks, such as the tag of a union, are left out."""
    at = _after_space(text, 0)
    for part in place:
        at = next((there for key, there in _children(text, at) if key == part), at)
    return text.count("\n", 0, at) + 1


def _children(text: str, at: int) -> Iterator[tuple[str | int, int]]:
    """The keys or indices of the object or list at an offset of valid JSON, and the offsets of their values."""
    if text[at] not in "{[":
        return
    is_object, number = text[at] == "{", 0
    at = _after_space(text, at + 1)
    while text[at] not in "}]":
        key: str | int = number
        if is_object:
            key, end = _DECODER.raw_decode(text, at)
            at = _after_space(text, _after_space(text, end) + 1)
        yield key, at
        _, end = _DECODER.raw_decode(text, at)
        at = _after_space(text, end)
        at = _after_space(text, at + 1) if text[at] == "," else at
        number += 1


def _after_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return at if found is None else found.end()


def _line_in_toml(text: str, place: Sequence[str | int]) -> int:
    """The line of a field, found by its names in their order; of a table in a list, by the number of its headers.

    A field that its table lacks is not looked for in the next table of the list.
    """
    at, end, header = 0, len(text), ""
    for part in place:
        if isinstance(part, int):
            pattern = re.compile(rf"^[ \t]*\[\[\s*{header}\s*\]\]", re.MULTILINE)
            places = [found.start() for found in pattern.finditer(text, at, end)] or _elements_in_toml(text, at, end)
            at, end = (places[part], [*places, end][part + 1]) if part < len(places) else (at, end)
            continue
        name = re.escape(part)
        header = rf"{header}\s*\.\s*{name}" if header else name
        found = re.compile(rf"(?<![\w-])[\"']?{name}[\"']?\s*[=\].]").search(text, at, end)
        at = at if found is None else text.rfind("\n", 0, found.start()) + 1
    return text.count("\n", 0, at) + 1


def _elements_in_toml(text: str, at: int, end: int) -> list[int]:
    """The offsets of the tables in an inline list that is the value of the line at an offset."""
    found: list[int] = []
    depth = 0
    for token in _TOML_TOKEN.finditer(text, text.find("=", at) + 1, end):
        if token[0] == "{" and depth == 1:
            found.append(token.start())
        depth += (token[0] in "[{") - (token[0] in "]}")
        if depth == 0:
            break
    return found
