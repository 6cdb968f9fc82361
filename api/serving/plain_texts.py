"""What a model in this process takes of a call: texts, drawn by temperature and top_p. Pure but for a drawn seed."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any, Final

from eventlog.events import Sampling

from .distributions import changed_parameters
from .errors import BadCall

_REFUSED: Final = ("tools", "functions", "response_format", "tool_choice", "thinking")
_NOTHING: Final[tuple[object, ...]] = (None, [], "none", {"type": "text"}, {"type": "none"}, {"type": "disabled"})


def refuse_beyond_text(body: Mapping[str, Any]) -> None:
    """Raise BadCall for tools, schemas, and sampling parameters that would be left out silently."""
    for name in _REFUSED:
        if body.get(name) not in _NOTHING:
            raise BadCall(where=name, actual="given", expected="none: the model answers with plain text alone")
    if changed := changed_parameters(body):
        expected = "none: tokens are drawn by temperature and top_p alone"
        raise BadCall(where=changed[0], actual="given", expected=expected)


def with_seed(sampling: Sampling) -> Sampling:
    """The same with a drawn seed where it has none, as at any model server."""
    return sampling if sampling.seed is not None else sampling.model_copy(update={"seed": secrets.randbits(31)})


def texts_of(content: object, where: str) -> tuple[str, ...]:
    """The texts of a message's content, in either API. Raises BadCall for anything else."""
    parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
    texts = [part.get("text") if isinstance(part, dict) and part.get("type") == "text" else None for part in parts]
    if not all(isinstance(text, str) for text in texts):
        raise BadCall(where=where, actual="something else than text", expected="texts alone")
    return tuple(str(text) for text in texts)
