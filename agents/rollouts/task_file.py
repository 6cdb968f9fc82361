"""Task files: the tasks of a site with their plans, as JSON that a person writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter, ValidationError

from eventlog.events import Template

from ..edited_files import MOST_STEPS, count_steps, first_bad_address, locate_fault, locate_problem, read_edited
from .errors import BadTaskFile

_SHAPE: Final[TypeAdapter[tuple[Template, ...]]] = TypeAdapter(tuple[Template, ...])
_EXPECTED: Final = "a list of tasks in JSON, each with template_id, cluster, oracle_task_id, instruction and a plan"


def read_task_file(file: Path) -> tuple[Template, ...]:
    """The tasks of a file. Its size and its steps are bounded first. Raises BadTaskFile, FileTooLarge, OSError."""
    try:
        text = read_edited(file)
        facts = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise BadTaskFile(file=file, actual=f"the file: {problem}", expected=_EXPECTED) from None
    if (steps := count_steps(facts)) > MOST_STEPS:
        raise BadTaskFile(file=file, actual=f"its plans hold {steps} steps", expected=f"at most {MOST_STEPS}")
    try:
        found = _SHAPE.validate_json(text)
    except ValidationError as problem:
        raise BadTaskFile(file=file, actual=locate_fault(problem, text), expected=_EXPECTED) from None
    leading_out = first_bad_address(facts)
    if leading_out is not None:
        raise BadTaskFile(file=file, actual=locate_problem(*leading_out, text), expected="paths of the site alone")
    return found
