"""Reading a worker's result: findings, one line of them, an error. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from .files import files_in
from .skills import listed_skills

FINDING_KEYS: Final = ("findings", "result", "summary", "analysis", "answer", "output")
LONGEST_FINDING: Final = 150
LONGEST_RESULT: Final = 200_000


def finding_of(worker: str, result: Mapping[str, Any], tool_error: str = "") -> str:
    """A line of what a worker found: the first of the usual keys that holds text or a list, else why there is none."""
    for key in FINDING_KEYS:
        value = result.get(key)
        if isinstance(value, str) and value.strip():
            plain = " ".join(value.split())
            return f"{worker}: {plain[:LONGEST_FINDING]}{'...' if len(plain) > LONGEST_FINDING else ''}"
        if isinstance(value, list) and value:
            return f"{worker}: {len(value)} items"
    if isinstance(result.get("error"), str):
        return f"{worker}: ERROR - {result['error'][:LONGEST_FINDING]}"
    return f"{worker}: TOOL ERROR - {tool_error[:LONGEST_FINDING]}" if tool_error else f"{worker}: no findings"


def key_findings(findings: Iterable[str]) -> str:
    """The findings of one iteration as a line."""
    return "; ".join(findings)


def compared_text(result: Mapping[str, Any]) -> str:
    """The text of a result by which the stall detector compares it, without what a worker says of its confidence."""
    plain = {key: value for key, value in sorted(result.items()) if key != "confidence"}
    return json.dumps(plain, sort_keys=True, ensure_ascii=False, default=str)


def result_bytes(result: Mapping[str, Any]) -> bytes:
    """A result as the bytes that are stored.

    One that is too long is stored as its beginning, with the first skills and the names of the files that it loses.
    """
    text = json.dumps(result, sort_keys=True, ensure_ascii=False, default=str)
    if len(text) > LONGEST_RESULT:
        files = ", ".join(files_in(result))
        error = f"the result was too long{f', and lost the files {files}' if files else ''}"
        short = {"error": error, "result": text[:2_000], "skills_created": _first_skills(result)}
        text = json.dumps(short, sort_keys=True)
    return text.encode(errors="replace")


def _first_skills(result: Mapping[str, Any]) -> list[Any]:
    """The skills of a result, as many as fit together."""
    kept, size = list[Any](), 0
    for each in listed_skills(result):
        size += len(json.dumps(each, default=str))
        if size > LONGEST_RESULT:
            break
        kept.append(each)
    return kept


def plain_line(text: str, most: int = 300) -> str:
    """A text as one line that an event may hold: without NUL and lone surrogates, cut to `most` characters."""
    sound = text[: 8 * most].encode("utf-8", "replace").decode().replace("\0", " ")
    return " ".join(sound.split())[:most]
