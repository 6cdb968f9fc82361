"""Critique of a worker's result by rules, categories of defects that recur, and whether a repair gets anywhere. Pure.

Rules see what the output contract asks for, what is empty, what only pretends. The score that a completion gate reads
is that of the result after its repair.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from eventlog.events import CritiqueConfig, DefectCategory
from projections.delegation.loop_state import Delegated

Severity = Literal["critical", "warning", "info"]
Critic = Literal["model", "rules"]
MICRO: Final = 1_000_000
FIXPOINT: Final = 0.95
"""Two repairs this alike are one: another attempt is not made."""

PLACEHOLDER: Final = re.compile(r"\b(?:TODO|TBD|FIXME|lorem ipsum)\b|\?\?\?|\{\{\s*\w+\s*\}\}", re.IGNORECASE)
CONFIDENCE: Final = "confidence"
"""Location of the defect of a result that its worker is not sure of. It does not recur: that is for stalls to tell."""

UNUSED: Final = 700_000
GOOD: Final = 700_000
"""After an iteration whose critiques have this mean, categories without a critical defect are counted anew."""

LEAST_WEIGHT: Final = 200_000
_WORD: Final = re.compile(r"\w+")
_BITS: Final = 64
_SHINGLE: Final = 3


@dataclass(frozen=True, slots=True)
class Defect:
    """A fault of a result, and its place. `why` is what a model said of it."""

    category: DefectCategory
    location: str
    severity: Severity
    cost: int
    why: str = ""

    @property
    def line(self) -> str:
        """The defect as a line of a prescription."""
        return f"{self.category} at {self.location} ({self.severity}){f': {self.why}' if self.why else ''}"


@dataclass(frozen=True, slots=True)
class Critique:
    """The score of a result in millionths, its defects, who judged it, and how it is to be repaired."""

    score: int
    defects: tuple[Defect, ...]
    critic: Critic = "rules"
    prescribed: tuple[str, ...] = ()

    @property
    def is_critical(self) -> bool:
        """True if a repair is due."""
        return any(each.severity == "critical" for each in self.defects)


def critique(
    result: Mapping[str, object], required: Sequence[str], confidence: int, unused: Sequence[str] = ()
) -> Critique:
    """Judge a result by its contract: from 1.0, less what each defect costs.

    `unused` are tools that had to be called and were not.
    """
    found = [Defect("unused_required_tool", name, "critical", UNUSED) for name in unused]
    if result.get("error"):
        found.append(Defect("wrong_format", "error", "critical", 400_000))
    if confidence < 300_000:  # noqa: PLR2004 millionths
        found.append(Defect("incomplete", CONFIDENCE, "warning", 200_000))
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
    lines = [each.line for each in judged.defects if each.severity != "info"]
    return "\n".join(
        ["Repair these defects of your last answer:", *(f"- {each}" for each in (*lines, *judged.prescribed))]
    )


def recurring_defects(history: Sequence[Delegated], config: CritiqueConfig) -> dict[str, int]:
    """In how many delegations each category of defects was found, in millionths, since a good one without it.

    What is incomplete counts by how much of the plan is done, because early on everything is.
    """
    counts: dict[str, int] = {}
    for each in history:
        for category in each.defects:
            share = MICRO if each.planned is None else max(LEAST_WEIGHT, each.planned)
            scaled = category == "incomplete" and config.phase_aware_incomplete
            counts[category] = counts.get(category, 0) + (share if scaled else MICRO)
        if each.critiques and sum(each.critiques) >= GOOD * len(each.critiques):
            counts = {category: count for category, count in counts.items() if category in each.critical}
    return counts


def defects_at(history: Sequence[Delegated], config: CritiqueConfig, most: int) -> tuple[str, ...]:
    """The categories of defects found in so many delegations; none if `most` is 0."""
    found = recurring_defects(history, config) if config.enabled and most else {}
    return tuple(sorted(category for category, count in found.items() if count >= most * MICRO))


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
