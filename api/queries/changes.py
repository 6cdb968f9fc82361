"""Changes of a plan, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def describe_change(change: Mapping[str, Any]) -> str:
    """Say in words what a change does."""
    match change["kind"]:
        case "follow_link":
            return f"open {change['page']} and follow “{change['label']}”"
        case "replace_url":
            return f"open {change['url']}"
        case "prefer_target":
            then = "".join(f", then “{label}”" for label in change.get("then", ()))
            return f"go for “{change['label']}”{then}"
        case "edit_step":
            return f"instead, {_step_in_words(change['step'])}"
        case _:
            steps = ", then ".join(_step_in_words(step) for step in change["steps"])
            return f"{change['where']} it, {steps}"


def _step_in_words(step: Mapping[str, Any]) -> str:
    target = step.get("label") or step.get("url") or step["intent"]
    value = "" if step.get("value") is None else f" = {step['value']}"
    return f"{step['type'].replace('_', ' ')} “{target}”{value}"
