"""Ground truth: what an oracle or a validator says of results, in place of what workers and managers say themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ...delegation.envelopes import Envelope

Verifier = Callable[[Envelope, Mapping[str, Any]], int | None]
"""The true confidence in a worker's result, in millionths; None if it cannot tell."""

Grader = Callable[[Mapping[str, Any]], bool | None]
"""Returns True if a final result solves the task; None if it cannot tell."""


@dataclass(frozen=True, slots=True)
class GroundTruth:
    """An oracle of a loop. Without one, self-reports count.

    `grader` and `validator` are the commands behind it, which a loop records; None where there is no command.
    """

    verify: Verifier | None = None
    grade: Grader | None = None
    grader: str | None = None
    validator: str | None = None

    @property
    def is_graded(self) -> bool:
        """True if an oracle grades the final result."""
        return self.grade is not None

    def confidence(self, envelope: Envelope, result: Mapping[str, Any]) -> int | None:
        """The true confidence in a worker's result, clamped to [0, 1]; None if nothing can tell."""
        found = None if self.verify is None else self.verify(envelope, result)
        return None if found is None else max(0, min(1_000_000, found))

    def verdict(self, result: Mapping[str, Any]) -> bool | None:
        """True if a final result solves the task; None if nothing can tell."""
        return None if self.grade is None else self.grade(result)


NO_TRUTH = GroundTruth()
