"""Ground truth by commands of the operator: a grader of final results, a validator of workers' results."""

from __future__ import annotations

import hashlib
import json
import shlex
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ...delegation.answers import micro_of, recover_object
from ...delegation.envelopes import Envelope
from ...delegation.results import plain_line
from .errors import TruthFailed
from .truth import GroundTruth
from .workers import run_in_group

TIMEOUT_S: Final = 300.0
LONGEST_PROGRAM: Final = 100


@dataclass(frozen=True, slots=True)
class GraderCommand:
    """A grader: the final result as JSON on its input, `{"solved": true or false}` on its output."""

    command: tuple[str, ...]

    def __call__(self, result: Mapping[str, Any]) -> bool:
        """True if a final result solves the task. Raises TruthFailed if the command fails or says neither."""
        ended = _run("grader", self.command, dict(result))
        solved = _answer_of(ended).get("solved")
        if not isinstance(solved, bool):
            raise TruthFailed(role="grader", actual=_describe(ended), expected='{"solved": true or false}')
        return solved


@dataclass(frozen=True, slots=True)
class ValidatorCommand:
    """A validator: worker, instructions and result as JSON on its input, `{"confidence": 0 to 1}` on its output."""

    command: tuple[str, ...]

    def __call__(self, envelope: Envelope, result: Mapping[str, Any]) -> int | None:
        """The true confidence in a worker's result, in millionths; None where it answers null. Raises TruthFailed."""
        asked = {"worker": envelope.worker_id, "instructions": envelope.instructions, "result": dict(result)}
        ended = _run("validator", self.command, asked)
        answer = _answer_of(ended)
        micro = micro_of(answer.get("confidence"))
        if "confidence" not in answer or (micro is None and answer["confidence"] is not None):
            raise TruthFailed(role="validator", actual=_describe(ended), expected='{"confidence": 0 to 1 or null}')
        return micro


def truth_of(grader: tuple[str, ...], validator: tuple[str, ...]) -> GroundTruth:
    """Ground truth by these commands; an empty one is none."""
    return GroundTruth(
        verify=ValidatorCommand(validator) if validator else None,
        grade=GraderCommand(grader) if grader else None,
        grader=name_command(grader),
        validator=name_command(validator),
    )


def name_command(words: tuple[str, ...]) -> str | None:
    """A command as the log names it: its program, and a digest of all, which may hold a secret; None for none."""
    if not words:
        return None
    digest = hashlib.sha256(shlex.join(words).encode()).hexdigest()
    return f"{plain_line(Path(words[0]).name, LONGEST_PROGRAM)} (SHA-256 {digest[:16]})"


def _run(role: str, command: tuple[str, ...], asked: dict[str, Any]) -> subprocess.CompletedProcess[bytes]:
    try:
        return run_in_group(command, json.dumps(asked, default=str).encode(), TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise TruthFailed(role=role, actual=str(problem)[:300], expected="a command that ends") from problem


def _answer_of(ended: subprocess.CompletedProcess[bytes]) -> dict[str, Any]:
    """The JSON object on the output of a command; empty if it failed or printed none."""
    found = recover_object(ended.stdout.decode(errors="replace")) if ended.returncode == 0 else None
    return {} if found is None else found.value


def _describe(ended: subprocess.CompletedProcess[bytes]) -> str:
    said = (ended.stdout + ended.stderr).decode(errors="replace").strip()[-300:]
    return f"exit code {ended.returncode}, {said!r}"
