"""Steps as an agent reports them, line by line, and as a run records them. Pure; nothing in them is trusted.

A line is a JSON object with `name`. `navigate`, `click`, `fill_field`, `select_option` and `submit` are steps on a page
if they say what such a step needs; every other name is an action of the agent's own.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final, get_args

from pydantic import ValidationError

from eventlog.events import Step, StepOutcome

from ...plans import UNTYPED
from ..executor import ExecutedStep

LONGEST: Final = 4_000
"""Most characters of a field of a reported step."""

LONGEST_TEXT: Final = 20_000
"""Most characters of the text that an agent says it saw."""

_OUTCOMES: Final = frozenset(get_args(StepOutcome))
_NEEDS: Final[dict[str, tuple[str, ...]]] = {
    "navigate": ("url",),
    "click": ("label",),
    "fill_field": ("label", "value"),
    "select_option": ("label", "value"),
    "submit": ("label",),
}
_NO_NAME: Final = re.compile(r"[^a-z0-9]+")
_PATH: Final = re.compile(r"/(?!/)[^\\]*")


def read_report(line: str, index: int) -> ExecutedStep | None:
    """The step that a line reports; None if it reports none."""
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        return None
    name = said.get("name") if isinstance(said, dict) else None
    if not isinstance(name, str) or not name.strip():
        return None
    outcome, status = said.get("outcome"), said.get("status")
    return ExecutedStep(
        index=index,
        step=_page_step(name, said) or _own_step(name, said),
        outcome=outcome if isinstance(outcome, str) and outcome in _OUTCOMES else "ok",  # type: ignore[arg-type]
        http_status=status if isinstance(status, int) and 100 <= status <= 599 else None,  # noqa: PLR2004
        text=_text(said, "text", LONGEST_TEXT),
    )


def _page_step(name: str, said: dict[str, Any]) -> Step | None:
    """A step on a page, as a plan would have it; None if it lacks what such a step needs."""
    needs = _NEEDS.get(name)
    given = {field: _text(said, field, LONGEST) for field in needs or ()}
    if needs is None or any(found is None for found in given.values()):
        return None
    if name == "navigate" and not _PATH.fullmatch(given["url"] or ""):
        return None
    intent = _text(said, "intent", LONGEST) or f"{name} {given.get('label') or given.get('url')}"
    try:
        return Step.model_validate({"type": name, "intent": intent, **given})
    except ValidationError:
        return None


def _own_step(name: str, said: dict[str, Any]) -> Step:
    """An action with an open name, and what it was given."""
    action = _NO_NAME.sub("_", name.lower()).strip("_")[:60]
    action = action if action[:1].isalpha() else f"step_{action}".rstrip("_")
    given = {key: value for key, value in said.items() if key in {"argument", "url", "label", "value"}}
    only = given.get("argument") if given.keys() == {"argument"} else None
    argument = only if isinstance(only, str) else json.dumps(given, ensure_ascii=False) if given else None
    intent = _text(said, "intent", LONGEST) or f"take the action {action}"
    value = None if argument is None else _clean(argument)[:LONGEST]
    return Step(type="act", intent=intent, label=action, value=value or None)


def _text(said: dict[str, Any], field: str, most: int) -> str | None:
    found = said.get(field)
    return (_clean(found)[:most] or None) if isinstance(found, str) else None


def _clean(text: str) -> str:
    """The text without signs that the log cannot hold or nobody can type."""
    return UNTYPED.sub("", text.encode("utf-8", "replace").decode())
