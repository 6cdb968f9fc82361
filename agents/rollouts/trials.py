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

from eventlog.events import PieceKind, Spec, SweepPlanned, Template, Trials

from ..learning.advice import Audience, worth_telling, would_tell
from ..learning.occasions import AnyPiece, OccasionPiece
from ..learning.retrieval import overlay_memory, retrieve
from ..plans import Piece, apply_change, place_of

MOST_ABREAST: Final = 8
"""Most siblings of a group that each try another candidate beside the same controls, where memory is told."""

_WHOLE: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class TrialPiece:
    """A piece that a sibling may try, and the number of control siblings that its rule compares with.

    If it `is_by_seed`, at most one task of a seed tries it. It `is_suspect` if its evidence has turned against it.
    `trials` is the number of trials that it has had.
    """

    piece: AnyPiece
    controls: int
    is_by_seed: bool = False
    is_suspect: bool = False
    trials: int = 0


def treat(
    specs: Sequence[Spec],
    templates: Iterable[Template],
    candidates: Collection[TrialPiece],
    promoted: Collection[TrialPiece],
    trials: Trials,
    rng_seed: int,
    environment: str = "",
    audience: Audience | None = None,
) -> tuple[Spec, ...]:
    """Assign exactly one piece to the last sibling of some groups; all other siblings play the unchanged artifact.

    In a share of the groups that sibling carries a candidate, in another it withholds a promoted piece. Only a piece
    that changes the group's plan is drawn, and only if the group has enough other siblings for the piece's rule. With
    an `audience`, the executor is told memory: then only what is told with the task and changes no plan is drawn.
    """
    memory, belonging, in_use = [each.piece for each in promoted], dict[str, list[TrialPiece]](), {}
    for each in templates:
        used = _pieces_in_use(each, environment, memory, audience)
        in_use[each.template_id] = [piece for piece in promoted if piece.piece.piece in used]
        belonging[each.template_id] = _fitting_candidates(candidates, each, environment, audience)
    tasks = _tasks_of(specs)
    tried, left_out = _Turns(belonging, tasks, rng_seed), _Turns(in_use, tasks, rng_seed)

    def draw_trial(spec: Spec, others: int) -> dict[str, str]:
        place = random.Random(f"{rng_seed}/{spec.group_id}/trial").randrange(_WHOLE)  # noqa: S311 a draw, not a secret
        withheld = left_out.eligible(spec, others)
        suspects = [each for each in withheld if each.is_suspect] if trials.suspect_micro is not None else []
        share = trials.suspect_micro if suspects and trials.suspect_micro is not None else trials.withheld_micro
        treated = trials.treated_micro - max(0, share - trials.withheld_micro)
        if place < treated:
            kind, fitting = "candidate", tried.eligible(spec, others)
        elif place < treated + share:
            kind, fitting = "withheld", suspects or withheld
        else:
            return {}
        names = sorted(each.piece.piece for each in fitting)
        return {kind: _one(names, rng_seed, spec.group_id)} if names else {}

    return _assign_trials(specs, draw_trial)


@dataclass(frozen=True, slots=True)
class _Turns:
    """Which pieces a group may try: `fitting` by task. A piece that counts one trial at a seed has one turn there.

    Its turn is in a task that is drawn by seed and piece among the sweep's `tasks` at that seed that the piece fits.
    """

    fitting: Mapping[str, Sequence[TrialPiece]]
    tasks: Mapping[int, Collection[str]]
    rng_seed: int

    def eligible(self, spec: Spec, others: int) -> list[TrialPiece]:
        """The pieces that a group may try, given the number of its other siblings."""
        found = [each for each in self.fitting[spec.template] if others >= max(1, each.controls)]
        return [each for each in found if not each.is_by_seed or self._has_turn(each.piece.piece, spec)]

    def _has_turn(self, piece: str, spec: Spec) -> bool:
        found = self.tasks[spec.env_seed]
        names = sorted(name for name in found if any(each.piece.piece == piece for each in self.fitting[name]))
        return _one(names, self.rng_seed, f"{piece}/{spec.env_seed}") == spec.template


def _tasks_of(specs: Iterable[Spec]) -> dict[int, set[str]]:
    found: dict[int, set[str]] = {}
    for spec in specs:
        found.setdefault(spec.env_seed, set()).add(spec.template)
    return found


def _pieces_in_use(
    template: Template, environment: str, memory: Sequence[AnyPiece], audience: Audience | None
) -> frozenset[str]:
    """Pieces of memory that a trial can withhold from a run of a task."""
    if audience is None:
        applied = overlay_memory(template.plan_steps, template.instruction, environment, memory).applied
        return frozenset(item.piece for item in applied)
    told = worth_telling(template, environment, memory, audience)
    return frozenset(each.piece for each in told if each.change is None)


def would_use(piece: AnyPiece, template: Template, environment: str, audience: Audience | None = None) -> bool:
    """True if a run of a task could try a piece: it changes the plan, or, if it has no change, what is told."""
    if audience is None:
        return would_change(piece, template, environment)
    has_no_change = isinstance(piece, OccasionPiece) and piece.change is None
    return has_no_change and would_tell(piece, template, environment, audience)


def would_change(piece: AnyPiece, template: Template, environment: str) -> bool:
    """True if a piece would change a template's plan."""
    if isinstance(piece, Piece):
        place = place_of(template.plan_steps, piece.anchor)
        return place is not None and apply_change(step := template.plan_steps[place], piece.change) != (step,)
    return retrieve(template.plan_steps, template.instruction, environment, [piece]) != ()


def _fitting_candidates(
    candidates: Collection[TrialPiece], template: Template, environment: str, audience: Audience | None
) -> list[TrialPiece]:
    return [each for each in candidates if would_use(each.piece, template, environment, audience)]


def open_to(
    specs: Sequence[Spec],
    templates: Iterable[Template],
    candidates: Collection[TrialPiece],
    rng_seed: int,
    environment: str,
    audience: Audience | None = None,
) -> dict[str, dict[PieceKind, tuple[str, ...]]]:
    """Candidates that each treated group could carry, keyed by kind and sorted by name."""
    belonging = {each.template_id: _fitting_candidates(candidates, each, environment, audience) for each in templates}
    turns = _Turns(belonging, _tasks_of(specs), rng_seed)
    sizes = Counter(spec.group_id for spec in specs)
    found: dict[str, dict[PieceKind, tuple[str, ...]]] = {}
    for spec in specs:
        if spec.candidate is None:
            continue
        fitting = [each.piece for each in turns.eligible(spec, sizes[spec.group_id] - 1)]
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


def share_controls(sweep: SweepPlanned, candidates: Collection[TrialPiece], audience: Audience) -> SweepPlanned:
    """The sweep in which further siblings of each treated group carry a candidate, each another one.

    As many siblings as the rules of the group's candidates compare with stay plain, or more where more than
    MOST_ABREAST would be left, so each of them has the same controls. Those with the fewest trials go first, equal
    ones by a draw.
    """
    places, groups = {spec.spec_id: number for number, spec in enumerate(sweep.specs)}, dict[str, list[Spec]]()
    for spec in sweep.specs:
        groups.setdefault(spec.group_id, []).append(spec)
    fitting = {
        each.template_id: _fitting_candidates(candidates, each, sweep.environment, audience) for each in sweep.templates
    }
    turns = _Turns(fitting, _tasks_of(sweep.specs), sweep.rng_seed)
    counts = Counter({each.piece.piece: each.trials for each in candidates})
    counts.update(spec.candidate for spec in sweep.specs if spec.candidate is not None)
    specs = list(sweep.specs)
    for group, (*others, last) in groups.items():
        if last.candidate is None:
            continue
        eligible = [each for each in turns.eligible(last, len(others)) if each.piece.piece != last.candidate]
        plain = max((each.controls for each in candidates if each.piece.piece == last.candidate), default=0)
        plain = max(plain, *(each.controls for each in eligible), 1) if eligible else len(others)
        plain = max(plain, len(others) - (MOST_ABREAST - 1))
        rng = random.Random(f"{sweep.rng_seed}/{group}/further")  # noqa: S311 a draw, not a secret
        names = rng.sample(sorted(each.piece.piece for each in eligible), len(eligible))
        names.sort(key=counts.__getitem__)
        for spec, name in zip(others[plain:], names, strict=False):
            specs[places[spec.spec_id]] = spec.model_copy(update={"candidate": name})
            counts[name] += 1
    return sweep.model_copy(update={"specs": tuple(specs)})


def drop_idle(sweep: SweepPlanned, trying: Collection[TrialPiece], least: int) -> SweepPlanned:
    """The sweep without the plain siblings that no trial of their group is compared with, but for `least` siblings.

    What a sibling carries or withholds moves down to the last ones that are left. Groups and trials are drawn before
    anything is played, so what is left out depends on no outcome, and a trial has the same controls as before.
    """
    controls, groups = {each.piece.piece: each.controls for each in trying}, dict[str, list[Spec]]()
    for spec in sweep.specs:
        groups.setdefault(spec.group_id, []).append(spec)
    left: dict[str, Spec] = {}
    for own in groups.values():
        changed = [spec for spec in own if not spec.is_plain]
        compared = max((controls.get(each.candidate or each.withheld or "", 0) for each in changed), default=0)
        size = min(len(own), max(least, compared + len(changed)))
        places = own[size - len(changed) : size]
        left |= {spec.spec_id: spec.model_copy(update={"candidate": None, "withheld": None}) for spec in own[:size]}
        left |= {
            place.spec_id: place.model_copy(update={"candidate": each.candidate, "withheld": each.withheld})
            for place, each in zip(places, changed, strict=True)
        }
    return sweep.model_copy(update={"specs": tuple(left[s.spec_id] for s in sweep.specs if s.spec_id in left)})


def _one(names: Sequence[str], rng_seed: int, group: str) -> str:
    return random.Random(f"{rng_seed}/{group}").choice(names)  # noqa: S311 a draw, not a secret


def _assign_trials(specs: Sequence[Spec], draw: Callable[[Spec, int], dict[str, str]]) -> tuple[Spec, ...]:
    """Specs in which the last sibling of each group has the group's draw."""
    sizes = Counter(spec.group_id for spec in specs)
    last = {spec.group_id: spec.spec_id for spec in specs}
    return tuple(
        spec.model_copy(update=draw(spec, sizes[spec.group_id] - 1)) if spec.spec_id == last[spec.group_id] else spec
        for spec in specs
    )
