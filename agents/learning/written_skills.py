"""Skills that runs wrote, as pieces of memory for the tasks of their cluster. Pure; trials decide later."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from eventlog.events import Occasion

from .capture import Captured

MOST_OF_A_CLUSTER: Final = 2
"""Most skills proposed per cluster and sweep."""


@dataclass(frozen=True, slots=True)
class WrittenSkill:
    """A skill that a passed run of a cluster wrote and used: its name, its line in the catalogue, its Markdown.

    `reward` is that of the run, in millionths.
    """

    run: str
    cluster: str
    reward: int
    name: str
    line: str
    text: str


def capture_skills(environment: str, written: Iterable[WrittenSkill]) -> tuple[Captured, ...]:
    """Pieces of the skills that runs wrote, of each cluster those first that most runs show, then by reward.

    The order of the skills does not matter. The same text in two clusters is two pieces, each with its own evidence.
    """
    found: dict[str, Captured] = {}
    for each in sorted(written, key=lambda each: (-each.reward, each.run, each.name)):
        piece = _piece_of(environment, each)
        before = found.get(piece.name)
        if before is None:
            found[piece.name] = piece
        elif each.run not in before.runs:
            found[piece.name] = Captured(
                "skill", before.occasion, None, before.title, before.text, (*before.runs, each.run), before.reward
            )
    ranked = sorted(found.values(), key=lambda each: (-len(each.runs), -each.reward, each.name))
    chosen: dict[str | None, list[Captured]] = {}
    for piece in ranked:
        own = chosen.setdefault(piece.occasion.cluster, [])
        if len(own) < MOST_OF_A_CLUSTER:
            own.append(piece)
    return tuple(sorted((piece for own in chosen.values() for piece in own), key=lambda piece: piece.name))


def _piece_of(environment: str, skill: WrittenSkill) -> Captured:
    occasion = Occasion(environment=environment, type="navigate", intent=skill.line, page="", cluster=skill.cluster)
    return Captured("skill", occasion, None, skill.name, skill.text.replace("\0", " "), (skill.run,), skill.reward)
