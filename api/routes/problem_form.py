"""The form of an error's answer: that of RFC 9457, with an `error` for programs. Pure."""

from __future__ import annotations

import re
from typing import Any, Final

from pydantic import BaseModel

PROBLEM_TYPE: Final = "application/problem+json"


class Fault(BaseModel):
    """A fault, the expectation, and the way out; `facts` are the same for a program."""

    type: str
    message: str
    facts: dict[str, Any]


class Problem(BaseModel):
    """The body of every answer that is not a success: the fields of RFC 9457, and `error` for a program."""

    type: str
    title: str
    status: int
    detail: str
    error: Fault


def title_of(kind: str) -> str:
    """The name of an error in words."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", kind)
    return words[:1] + words[1:].lower()


def problem_schemas() -> dict[str, Any]:
    """The schemas of errors, by name, for the OpenAPI document."""
    whole = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
    parts: dict[str, Any] = whole.pop("$defs")
    return {**parts, "Problem": whole}
