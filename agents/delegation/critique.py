"""Critique of a worker's result, and whether a repair gets anywhere. Pure.

A critique by rules: what the output contract asks for, what is empty, what only pretends. The score that a completion
gate reads is that of the result after its repair.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

Severity = Literal["critical", "warning"]
DefectCategory = Literal["missing_data", "wrong_format", "incomplete", "placeholder"]
MICRO: Final = 1_000_000
FIXPOINT: Final = 0.95
"""Two repairs this alike are one: another attempt is not made."""

PLACEHOLDER: Final = re.compile(r"\b(?:TODO|TBD|FIXME|lorem ipsum)\b|\?\?\?|\{\{\s*\w+\s*\}\}", re.IGNORECASE)
_WORD: Final = re.compile(r"\w+")
_BITS: Final = 64
_SHINGLE: Final = 3


@dataclass(frozen=True, slots=True)
class Defect:
    """A fault of a result, and its place."""

    category: DefectCategory
    location: str
    severity: Severity
    cost: int

    @property
    def line(self) -> str:
        """The defect as a line of a prescription."""
        return f"{self.category} at {self.location} ({self.severity})"


@dataclass(frozen=True, slots=True)
class Critique:
    """The score of a result in millionths, and its defects."""

    score: int
    defects: tuple[Defect, ...]

    @property
    def is_critical(self) -> bool:
        """True if a repair is due."""
        return any(each.severity == "critical" for each in self.defects)


def critique(result: Mapping[str, object], required: Sequence[str], confidence: int) -> Critique:
    """Judge a result by its contract: from 1.0, less what each defect costs."""
    found = []
    if result.get("error"):
        found.append(Defect("wrong_format", "error", "critical", 400_000))
    if confidence < 300_000:  # noqa: PLR2004 millionths
        found.append(Defect("incomplete", "confidence", "warning", 200_000))
    missing = [name for name in required if result.get(name) in (None, "", [], {})]
    found += [Defect("missing_data", name, "critical", 200_000) for name in missing]
    for name, value in sorted(result.items()):
        if name in missing or not isinstance(value, str):
            continue
        if not value.strip():
            found.append(Defect("incomplete", name, "warning", 100_000))
        elif PLACEHOLDER.search(value):
            found.append(Defect("placeholder", name, "critical", 300_000))
    return Critique(max(0, MICRO - sum(each.cost for each in found)), tuple(found))


def prescription(judged: Critique) -> str:
    """Instructions to a worker on how to repair its result."""
    return "\n".join(["Repair these defects of your last answer:", *(f"- {each.line}" for each in judged.defects)])


def is_fixpoint(before: str, after: str) -> bool:
    """True if a repair changed next to nothing."""
    return simhash_similarity(before, after) >= FIXPOINT


def simhash_similarity(first: str, second: str) -> float:
    """The share of equal bits of the simhashes of two texts."""
    return 1 - (simhash(first) ^ simhash(second)).bit_count() / _BITS


def simhash(text: str) -> int:
    """A 64-bit simhash over shingles of three words."""
    words = _WORD.findall(text.lower()[:20_000])
    shingles = [" ".join(words[at : at + _SHINGLE]) for at in range(max(1, len(words) - _SHINGLE + 1))]
    totals = [0] * _BITS
    for shingle in shingles:
        value = int.from_bytes(hashlib.blake2b(shingle.encode(errors="replace"), digest_size=8).digest())
        for bit in range(_BITS):
            totals[bit] += 1 if value >> bit & 1 else -1
    return sum(1 << bit for bit in range(_BITS) if totals[bit] > 0)
