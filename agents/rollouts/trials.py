"""Assignment of trials: which sibling of a group tries which piece of memory, drawn by seed and group. Pure.

A *treated* group has a sibling that carries a candidate beyond the artifact; in others a sibling withholds a promoted
piece.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from eventlog.events import PieceKind, Spec, Template, Trials

from ..learning.occasions import AnyPiece
from ..learning.retrieval import overlay_memory, retrieve
from ..plans import Piece, apply_change, place_of

_WHOLE: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class TrialPiece:
    """A piece that a sibling may try, and the number of control siblings that its rule compares with."""

    piece: AnyPiece
    controls: int


def treat(
    specs: Sequence[Spec],
    templates: Iterable[Template],
    candidates: Collection[TrialPiece],
    promoted: Collection[TrialPiece],
    trials: Trials,
    rng_seed: int,
    environment: str = "",
) -> tuple[Spec, ...]:
    """Assign exactly one piece to the last sibling of some groups; all other siblings play the unchanged artifact.

    In a share of the groups that sibling carries a candidate, in another it withholds a promoted piece. Only a piece
    that changes the group's plan is drawn, and only if the group has enough other siblings for the piece's rule.
    """
    memory = [each.piece for each in promoted]
    belonging, applied = dict[str, list[TrialPiece]](), dict[str, set[str]]()
    for each in templates:
        name, plan, instruction = each.template_id, each.plan_steps, each.instruction
        applied[name] = {item.piece for item in overlay_memory(plan, instruction, environment, memory).applied}
        belonging[name] = _fitting(candidates, each, environment)

    def draw_trial(group: str, template: str, others: int) -> dict[str, str]:
        place = random.Random(f"{rng_seed}/{group}/trial").randrange(_WHOLE)  # noqa: S311 a draw, not a secret
        if place < trials.treated_micro:
            kind, fitting = "candidate", belonging[template]
        elif place < trials.treated_micro + trials.withheld_micro:
            kind, fitting = "withheld", [each for each in promoted if each.piece.piece in applied[template]]
        else:
            return {}
        names = sorted(each.piece.piece for each in fitting if others >= max(1, each.controls))
        return {kind: _one(names, rng_seed, group)} if names else {}

    return _assign_trials(specs, draw_trial)


def would_change(piece: AnyPiece, template: Template, environment: str) -> bool:
    """True if a piece would change a template's plan."""
    if isinstance(piece, Piece):
        place = place_of(template.plan_steps, piece.anchor)
        return place is not None and apply_change(step := template.plan_steps[place], piece.change) != (step,)
    return retrieve(template.plan_steps, template.instruction, environment, [piece]) != ()


def _fitting(candidates: Collection[TrialPiece], template: Template, environment: str) -> list[TrialPiece]:
    return [each for each in candidates if would_change(each.piece, template, environment)]


def open_to(
    specs: Sequence[Spec], templates: Iterable[Template], candidates: Collection[TrialPiece], environment: str
) -> dict[str, dict[PieceKind, tuple[str, ...]]]:
    """Candidates that each treated group could carry, keyed by kind and sorted by name."""
    belonging = {each.template_id: _fitting(candidates, each, environment) for each in templates}
    sizes = Counter(spec.group_id for spec in specs)
    found: dict[str, dict[PieceKind, tuple[str, ...]]] = {}
    for spec in specs:
        if spec.candidate is None:
            continue
        others = sizes[spec.group_id] - 1
        fitting = [each.piece for each in belonging[spec.template] if others >= max(1, each.controls)]
        kinds = sorted({piece.kind for piece in fitting})
        found[spec.group_id] = {
            kind: tuple(sorted(piece.piece for piece in fitting if piece.kind == kind)) for kind in kinds
        }
    return found


def of_kinds(
    specs: Sequence[Spec],
    opened: Mapping[str, Mapping[PieceKind, Sequence[str]]],
    kinds: Mapping[str, PieceKind],
    rng_seed: int,
) -> tuple[Spec, ...]:
    """Specs with each treated group's candidate redrawn from the kind chosen for the group, or removed without one."""

    def draw_piece(spec: Spec) -> str | None:
        kind = kinds.get(spec.group_id)
        return None if kind is None else _one(opened[spec.group_id][kind], rng_seed, spec.group_id)

    return tuple(
        spec if spec.candidate is None else spec.model_copy(update={"candidate": draw_piece(spec)}) for spec in specs
    )


def _one(names: Sequence[str], rng_seed: int, group: str) -> str:
    return random.Random(f"{rng_seed}/{group}").choice(names)  # noqa: S311 a draw, not a secret


def _assign_trials(specs: Sequence[Spec], draw: Callable[[str, str, int], dict[str, str]]) -> tuple[Spec, ...]:
    """Specs in which the last sibling of each group has the group's draw."""
    sizes = Counter(spec.group_id for spec in specs)
    last = {spec.group_id: spec.spec_id for spec in specs}
    return tuple(
        spec.model_copy(update=draw(spec.group_id, spec.template, sizes[spec.group_id] - 1))
        if spec.spec_id == last[spec.group_id]
        else spec
        for spec in specs
    )
