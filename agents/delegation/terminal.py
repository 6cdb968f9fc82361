"""How a loop ended: statuses and the reasons that lead to them. Pure."""

from __future__ import annotations

from typing import Final, Literal

TerminalStatus = Literal["complete", "partial_complete", "failed", "aborted"]
_COMPLETE: Final = frozenset({"complete", "success", "completed", "ok"})
_FAILED: Final = frozenset({"eval_fail", "fail", "failed"})
_ABORTED: Final = frozenset({"", "sigterm", "sigint", "user_stop", "aborted", "process_exit_without_terminal_event"})


def terminal_status(reason: str) -> TerminalStatus:
    """The status of a reason, which may be followed by `:` or a space and details. An unknown reason is partial."""
    word = reason.replace(":", " ").split(" ", 1)[0]
    if word in _COMPLETE:
        return "complete"
    if word in _FAILED or word.startswith("error"):
        return "failed"
    return "aborted" if word in _ABORTED else "partial_complete"
