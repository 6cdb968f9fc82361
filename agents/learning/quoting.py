"""Quoting: text of pages and of models made harmless, so that a model reads it as data and never as orders. Pure.

A lesson is shown to a model inside its prompt. Its words may come from a page that a stranger wrote, or from another
model. So signs with which a text could leave its quotes or start a turn of its own are replaced, and it is cut.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

LONGEST: Final = 280
"""Most bytes of a cleaned text. UTF-8 bytes bound the tokens of any tokenizer that works on bytes."""

_ELLIPSIS: Final = "..."
_HIDDEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Unicode categories of signs that are not seen: controls, joiners, direction marks, tags, surrogates."""

_SIGNS: Final = str.maketrans(
    {
        **dict.fromkeys('"“”„‟«»`´', "'"),
        **dict.fromkeys("<[{", "("),
        **dict.fromkeys(">]}", ")"),
        **dict.fromkeys("|¦", "/"),
        **dict.fromkeys("#\\▁", " "),
    }
)
"""Signs of quotes, tags, chat templates, headings and escapes, and what stands in their place."""

_ROLE: Final = re.compile(r"\b(system|user|human|assistant|developer|tool|model|inst)\s*:+", re.IGNORECASE)


def clean_text(text: str, most: int = LONGEST) -> str:
    """A text on one line without signs that quote, tag or start a turn, cut to `most` bytes with an ellipsis.

    Cleaning a clean text changes nothing.
    """
    seen = "".join(" " if unicodedata.category(sign) in _HIDDEN else sign for sign in text)
    plain = unicodedata.normalize("NFKC", seen).translate(_SIGNS)
    return _cut(" ".join(_ROLE.sub(r"\1 -", plain).split()), most)


def quote_text(text: str, most: int = LONGEST) -> str:
    """A cleaned text in quotation marks, which it cannot close."""
    return f"“{clean_text(text, most)}”"


def _cut(text: str, most: int) -> str:
    body = text.encode()
    if len(body) <= most:
        return text
    return body[: most - len(_ELLIPSIS.encode())].decode(errors="ignore").rstrip() + _ELLIPSIS
