"""Suite files: TOML or JSON that a person writes, read into a suite, with the line and field of each fault.

In a file a threshold is a number from 0 to 1 and a range of seeds is text such as `0-8999`; the log holds integers.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from eventlog.chain import digest
from eventlog.events import Step, Suite, SuiteTask

from ..edited_files import MOST_STEPS, Place, first_bad_address, locate_field, locate_problem, read_edited
from ..envs.contract import MICRO, micro_units
from .errors import BadSuite

MOST_BYTES: Final = 4 * 2**20
"""The most bytes of a suite file; its content is one event."""

_EXPECTED: Final = "the fields of a suite"
_SPAN: Final = re.compile(r"\s*(\d{1,16})\s*-\s*(\d{1,16})\s*")
_TAGS: Final = frozenset({"text", "steps"})

Fault = tuple[Place, str]
"""The place of a fault in a file, and what is wrong there."""


def read_suite(file: Path) -> Suite:
    """The suite in a file: TOML if its name ends in `.toml`, else JSON. Raises BadSuite, FileTooLarge."""
    found = check_suite(file)
    if not isinstance(found, Suite):
        more = f"; and {len(found) - 1} more" if len(found) > 1 else ""
        raise BadSuite(file=file, actual=f"{found[0]}{more}", expected=_EXPECTED)
    return found


def check_suite(file: Path) -> Suite | tuple[str, ...]:
    """The suite in a file, or each fault with its line and field. Raises BadSuite, FileTooLarge if it is none."""
    is_toml = _is_toml(file)
    try:
        text = read_edited(file, MOST_BYTES)
        facts = tomllib.loads(text) if is_toml else json.loads(text, object_pairs_hook=_without_repeats)
    except OSError as problem:
        raise BadSuite(file=file, actual=problem.strerror, expected="a file that can be read") from problem
    except (ValueError, RecursionError) as problem:
        raise BadSuite(file=file, actual=problem, expected="JSON, or TOML in a file named .toml") from problem
    found = suite_from(facts)
    if isinstance(found, Suite):
        return found
    return tuple(locate_problem(place, problem, text, is_toml=is_toml) for place, problem in found)


def locate_in_suite(file: Path, place: Place) -> str:
    """The line and the field of a place in a suite file. Raises OSError, UnicodeDecodeError, FileTooLarge."""
    return locate_field(place, read_edited(file, MOST_BYTES), is_toml=_is_toml(file))


def _is_toml(file: Path) -> bool:
    return file.suffix == ".toml"


def suite_from(facts: object) -> Suite | tuple[Fault, ...]:
    """The suite that parsed JSON or TOML describes, or all that is wrong with it."""
    try:
        content, faults = _as_stored(facts)
        if faults:
            return faults
        suite = Suite.model_validate_json(json.dumps(content))
    except ValidationError as problem:
        return tuple(
            (_place_in(facts, fault["loc"]), fault["msg"].removeprefix("Value error, "))
            for fault in problem.errors(include_url=False, include_context=False, include_input=False)
        )
    except (TypeError, ValueError, RecursionError) as problem:
        return (((), str(problem)),)
    return tuple(faults_of(suite)) or suite


def suite_digest(suite: Suite) -> str:
    """SHA-256 of a suite's canonical JSON, in hexadecimal."""
    return digest(suite.model_dump(mode="json")).hex()


def suite_text(suite: Suite) -> str:
    """A suite as JSON for a file, readable by people; `read_suite` reads it back."""
    content = suite.model_dump(mode="json")
    for task in content["tasks"]:
        micro = task.pop("threshold_micro", None)
        if micro is not None:
            task["threshold"] = micro / MICRO
    content["seeds"] = {name: f"{span['first']}-{span['last']}" for name, span in content["seeds"].items()}
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def faults_of(suite: Suite) -> Iterator[Fault]:
    """Faults of a suite whose fields are each right: repetitions, addresses that lead out, loops to nowhere."""
    yield from _repeated_names([(("tasks", place, "id"), task.id) for place, task in enumerate(suite.tasks)])
    kinds = [(("operations", place, "kind"), each.kind) for place, each in enumerate(suite.operations)]
    yield from _repeated_names(kinds)
    labels = [
        (("operations", place, "labels"), label.strip().casefold())
        for place, each in enumerate(suite.operations)
        for label in each.labels
    ]
    yield from _repeated_names(labels)
    for place, task in enumerate(suite.tasks):
        yield from _faults_of_plan(task, ("tasks", place, "plan"))
    if (steps := sum(len(task.steps) for task in suite.tasks)) > MOST_STEPS:
        yield (), f"its plans hold {steps} steps; expected at most {MOST_STEPS}"


def _faults_of_plan(task: SuiteTask, place: Place) -> Iterator[Fault]:
    leading_out = first_bad_address([step.model_dump(mode="json") for step in task.steps], place)
    if leading_out is not None:
        yield leading_out
    for number, step in enumerate(task.steps):
        if step.loop_to is not None and step.loop_to > number:
            yield (
                (*place, number, "loop_to"),
                f"it is {step.loop_to}; expected a step before this one, at most {number}",
            )
        missing = _missing_field(step)
        if missing is not None:
            yield (*place, number), f"a step of the type {step.type} needs `{missing}`"


def _missing_field(step: Step) -> str | None:
    """The field that a step of this type needs and lacks."""
    if step.type == "navigate" and step.url is None:
        return "url"
    if step.type in {"click", "fill_field", "select_option", "submit"} and step.label is None:
        return "label"
    return "value" if step.type in {"fill_field", "select_option"} and step.value is None else None


def _repeated_names(named: Sequence[tuple[Place, str]]) -> Iterator[Fault]:
    seen: set[str] = set()
    for place, name in named:
        if name in seen:
            yield place, f"{name!r} stands there twice; expected each once"
        seen.add(name)


def _as_stored(facts: object) -> tuple[object, tuple[Fault, ...]]:
    """The facts of a file with thresholds and ranges as integers, and what is wrong with these."""
    if not isinstance(facts, dict):
        return facts, ()
    faults: list[Fault] = []
    content = dict(facts)
    seeds = facts.get("seeds")
    if isinstance(seeds, dict):
        content["seeds"] = {name: _span(given, ("seeds", name), faults) for name, given in seeds.items()}
    tasks = facts.get("tasks")
    if isinstance(tasks, list):
        content["tasks"] = [_task(task, ("tasks", place), faults) for place, task in enumerate(tasks)]
    return content, tuple(faults)


def _span(given: object, place: Place, faults: list[Fault]) -> object:
    if not isinstance(given, str):
        return given
    found = _SPAN.fullmatch(given)
    if found is None:
        faults.append((place, f"{given!r} is not a range of seeds; expected one such as 0-8999"))
        return given
    return {"first": int(found[1]), "last": int(found[2])}


def _task(given: object, place: Place, faults: list[Fault]) -> object:
    if not isinstance(given, dict):
        return given
    if "threshold_micro" in given:
        faults.append(((*place, "threshold_micro"), "it is not a field of a file; write `threshold`, from 0 to 1"))
    if "threshold" not in given:
        return given
    task = {name: each for name, each in given.items() if name != "threshold"}
    try:
        task["threshold_micro"] = micro_units(given["threshold"])
    except ValueError as problem:
        faults.append(((*place, "threshold"), str(problem)))
    return task


def _place_in(facts: Any, loc: Sequence[str | int]) -> Place:
    """A place of a fault without the tags of unions, which are no fields of the file."""
    place: list[str | int] = []
    at = facts
    for part in loc:
        known = at[part] if _has(at, part) else None
        if known is None and part in _TAGS:
            continue
        place.append("threshold" if part == "threshold_micro" else part)
        at = known
    return tuple(place)


def _has(facts: Any, part: str | int) -> bool:
    if isinstance(facts, list):
        return isinstance(part, int) and part < len(facts)
    return isinstance(facts, dict) and part in facts


def _without_repeats(pairs: Sequence[tuple[str, Any]]) -> Mapping[str, Any]:
    """An object of JSON. Raises ValueError for a field that it names twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the field {twice!r} stands twice in one object")
    return found
