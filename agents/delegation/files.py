"""Files of a result: texts by name that workers write, and what is wrong with one. Pure.

A file is a text in a worker's result (`files`, name to text); nothing is read from a disk, and a name is no path.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any, Final

from .answers import parse_json
from .critique import PLACEHOLDER, simhash_similarity
from .envelopes import safe_id

MOST_FILES: Final = 100
MOST_CHARS: Final = 2_000_000
"""The files of a result hold no more than this together."""

LOOP_WORDS: Final = 20
LOOP_SIMILARITY: Final = 0.9
MOST_ORPHANS: Final = 2
LEAST_PARAGRAPHS: Final = 5
LONG_PARAGRAPH: Final = 120
MOST_REPEATED: Final = 0.2
MOST_COMPARED: Final = 100_000
"""Paragraphs are compared in so many characters of a text. Everything else takes time that grows as the text does."""

_BINARY: Final = frozenset({"png", "jpg", "jpeg", "gif", "webp", "pdf", "xlsx", "docx", "pptx", "zip", "gz", "parquet"})
_CODE: Final = frozenset(
    {"py", "js", "ts", "sh", "sql", "c", "h", "cpp", "java", "go", "rs", "rb", "yaml", "yml", "toml"}
)
_PROSE: Final = frozenset({"md", "markdown", "txt", "rst"})
_COMMENT: Final = re.compile(r"^\s*(?:#|//|--|/\*|\*|<!--)")
_HEADING: Final = re.compile(r"^#{1,2} .+$", re.MULTILINE)
_ANY_HEADING: Final = re.compile(r"^#{1,6}[ \t]+(.+)$", re.MULTILINE)
_ANCHOR: Final = re.compile(r"\]\(#([^)\s]{1,200})\)")
_NOT_ANCHOR: Final = re.compile(r"[^\w\- ]")
_FENCE: Final = re.compile(r"^[ \t]*```", re.MULTILINE)
_FENCED: Final = re.compile(r"^[ \t]*```.*?^[ \t]*```[^\n]*$", re.MULTILINE | re.DOTALL)


def files_in(result: Mapping[str, Any]) -> dict[str, str]:
    """The files in a worker's result or in a final one. What is no text is left out."""
    listed = result.get("files")
    found = list(listed.items())[:MOST_FILES] if isinstance(listed, Mapping) else []
    named = ((safe_id(name), text) for name, text in found)
    return {name: text for name, text in named if name and isinstance(text, str)}


def merge_files(results: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """The files of all results, the latest of each name. Beyond the limits the earlier ones stay."""
    merged: dict[str, str] = {}
    for result in results:
        for name, text in files_in(result).items():
            others = sum(len(each) for other, each in merged.items() if other != name)
            if others + len(text) <= MOST_CHARS and (name in merged or len(merged) < MOST_FILES):
                merged[name] = text
    return merged


def file_fault(name: str, text: str) -> str | None:
    """What makes a file useless: it is empty, broken, holds a placeholder, repeats itself; None if nothing does."""
    if not text.strip():
        return "is empty"
    suffix = _suffix_of(name)
    if is_binary(name):
        return f"holds text, and .{suffix} is no text; expected text such as Markdown, CSV or SVG"
    placeholder = _placeholder(text, is_code=suffix in _CODE)
    if placeholder:
        return f"holds a placeholder: {placeholder!r}"
    return _broken(suffix, text) or (_unsound_prose(text) if suffix in _PROSE else None)


def is_binary(name: str) -> bool:
    """True if files of this name hold no text."""
    return _suffix_of(name) in _BINARY


def _suffix_of(name: str) -> str:
    return name.rpartition(".")[2].lower() if "." in name else ""


def repeats_itself(text: str) -> bool:
    """True if a paragraph of a text follows itself within its first `MOST_COMPARED` characters."""
    paragraphs = [each for each in text[:MOST_COMPARED].split("\n\n")[:200] if len(each.split()) >= LOOP_WORDS]
    return any(simhash_similarity(before, after) >= LOOP_SIMILARITY for before, after in pairwise(paragraphs))


def _placeholder(text: str, *, is_code: bool) -> str:
    """The first line with a placeholder; a comment of a program may say what is to be done."""
    for line in text.splitlines():
        if PLACEHOLDER.search(line) and not (is_code and _COMMENT.match(line)):
            return line.strip()[:60]
    return ""


def _broken(suffix: str, text: str) -> str | None:
    match suffix:
        case "json":
            value, is_json = parse_json(text)
            if not is_json:
                return "is no JSON"
            return "is empty JSON" if value in ({}, [], None, "") else None
        case "csv" | "tsv":
            rows = [line for line in text.splitlines() if line.strip(" ,;\t")]
            return "has no row below its heading" if len(rows) < 2 else None  # noqa: PLR2004 heading and row
        case "py":
            return _syntax_fault(text)
        case _:
            return None


def _syntax_fault(text: str) -> str | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as problem:
        return f"is no Python: {str(problem)[:80]}"
    return None


def _unsound_prose(text: str) -> str | None:
    if len(_FENCE.findall(text)) % 2:
        return "opens a block of code that it does not close"
    plain = _FENCED.sub("", text)
    counts = Counter(_HEADING.findall(plain))
    twice = next((each for each, count in counts.items() if count > 1), None)
    if twice is not None:
        return f"has the heading {twice[:60]!r} twice"
    if repeats_itself(plain):
        return "repeats a paragraph"
    anchors = {_anchor_of(each) for each in _ANY_HEADING.findall(plain)}
    orphans = [each for each in dict.fromkeys(_ANCHOR.findall(plain)) if each.lower() not in anchors]
    if len(orphans) > MOST_ORPHANS:
        return f"links to headings that are not there: {', '.join(orphans[:3])[:80]}"
    long = [" ".join(each.split()) for each in plain.split("\n\n") if len(each) > LONG_PARAGRAPH]
    repeated = len(long) - len(set(long))
    is_patchwork = len(long) >= LEAST_PARAGRAPHS and repeated >= MOST_REPEATED * len(long)
    return f"has {repeated} of {len(long)} paragraphs twice" if is_patchwork else None


def _anchor_of(heading: str) -> str:
    return _NOT_ANCHOR.sub("", heading.rstrip("# \t")).strip().lower().replace(" ", "-")
