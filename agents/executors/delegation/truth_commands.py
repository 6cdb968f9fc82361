"""Ground truth by commands of the operator: a grader of final results, a validator of workers' results."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ...delegation.answers import micro_of, recover_object
from ...delegation.envelopes import Envelope
from .errors import TruthFailed
from .truth import GroundTruth
from .workers import run_in_group

TIMEOUT_S: Final = 300.0
SOLVED, UNSOLVED = 0, 1


@dataclass(frozen=True, slots=True)
class GraderCommand:
    """A grader: the final result as JSON on its input; exit code 0 if it solves the task, 1 if it does not."""

    command: tuple[str, ...]

    def __call__(self, result: Mapping[str, Any]) -> bool:
        """True if a final result solves the task. Raises TruthFailed for any other exit code."""
        ended = _run("grader", self.command, dict(result))
        if ended.returncode not in {SOLVED, UNSOLVED}:
            raise TruthFailed(role="grader", actual=_describe(ended), expected="exit code 0 (solved) or 1 (not solved)")
        return ended.returncode == SOLVED


@dataclass(frozen=True, slots=True)
class ValidatorCommand:
    """A validator: worker, instructions and result as JSON on its input, `{"confidence": 0 to 1}` on its output."""

    command: tuple[str, ...]

    def __call__(self, envelope: Envelope, result: Mapping[str, Any]) -> int | None:
        """The true confidence in a worker's result, in millionths; None where it answers null. Raises TruthFailed."""
        asked = {"worker": envelope.worker_id, "instructions": envelope.instructions, "result": dict(result)}
        ended = _run("validator", self.command, asked)
        found = recover_object(ended.stdout.decode(errors="replace"))
        stated = None if found is None else found.value.get("confidence")
        micro = micro_of(stated)
        if ended.returncode != 0 or found is None or (stated is not None and micro is None):
            raise TruthFailed(role="validator", actual=_describe(ended), expected='{"confidence": 0 to 1 or null}')
        return micro


def truth_of(grader: tuple[str, ...], validator: tuple[str, ...]) -> GroundTruth:
    """Ground truth by these commands; an empty one is none."""
    return GroundTruth(
        verify=ValidatorCommand(validator) if validator else None, grade=GraderCommand(grader) if grader else None
    )


def _run(role: str, command: tuple[str, ...], asked: dict[str, Any]) -> subprocess.CompletedProcess[bytes]:
    try:
        return run_in_group(command, json.dumps(asked, default=str).encode(), TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise TruthFailed(role=role, actual=str(problem)[:300], expected="a command that ends") from problem


def _describe(ended: subprocess.CompletedProcess[bytes]) -> str:
    said = (ended.stdout + ended.stderr).decode(errors="replace").strip()[-300:]
    return f"exit code {ended.returncode}, {said!r}"
