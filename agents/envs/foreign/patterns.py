"""Regular expressions of a dialect, matched in time linear in the text: no pattern of a file can stop a run."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from pydantic_core import SchemaError, SchemaValidator, core_schema


@lru_cache(maxsize=256)
def searcher_of(pattern: str) -> Callable[[str], bool]:
    """A function that says whether a text contains a match of the pattern. Raises ValueError if it is no pattern.

    The engine is that of pydantic, Rust's `regex`: without look-around and back-references, and linear.
    """
    try:
        validator = SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex"))
    except SchemaError as problem:
        shown = " ".join(str(problem).split())
        raise ValueError(f"not a regular expression without look-around and back-references: {shown}") from problem
    return validator.isinstance_python
