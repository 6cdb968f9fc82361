"""Models that tell what they draw while they draw it, and that continue a text without a template of chats. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

from eventlog.events import Sampling

from .model import Completion, CompletionRequest

_REPLACEMENT: Final = "\ufffd"


@dataclass(frozen=True, slots=True)
class DrawnText:
    """The text of a sample so far, which only grows, with the model's name and the number of the prompt's tokens."""

    model: str
    input_tokens: int
    sample: int
    text: str


Watcher = Callable[[DrawnText], bool]
"""Is told of each token of a completion in the threads that draw, and returns soon: True if nobody waits any more."""


@dataclass(frozen=True, slots=True)
class TextRequest:
    """A text, or token ids, to continue."""

    prompt: str | tuple[int, ...]
    sampling: Sampling


@runtime_checkable
class Watchable(Protocol):
    """A Model that can be watched while it draws."""

    def complete_watched(self, request: CompletionRequest, watcher: Watcher) -> Completion:
        """As Model.complete, with a watcher. What nobody waits for ends early."""
        ...


@runtime_checkable
class Continuing(Protocol):
    """A Model that continues a text."""

    def continue_text(self, request: TextRequest, watcher: Watcher | None = None) -> Completion:
        """Sample continuations. Raises as Model.complete; RequestRejected for token ids that the model has not."""
        ...


def settled_text(text: str, stops: Sequence[str]) -> str:
    """A text that is being drawn without what may still change: half a character, or the beginning of a stop text."""
    plain = text.rstrip(_REPLACEMENT)
    held = max((_overlap(plain, stop) for stop in stops), default=0)
    return plain[: len(plain) - held]


def _overlap(text: str, stop: str) -> int:
    """How many characters at the end of a text are the beginning of a stop text."""
    return next((many for many in range(min(len(stop), len(text)), 0, -1) if text.endswith(stop[:many])), 0)
