"""Capture lessons in words from the runs of models of an ended sweep."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from itertools import chain

from agents.learning.applied_words import say_promoted
from agents.learning.capture import Captured
from agents.learning.contrast import Transcript, contrast
from agents.learning.memory import content_reader, load_piece
from agents.learning.occasions import WHOLE_TEXTS, OccasionPiece
from agents.learning.transfer import transfer
from agents.rollouts.transcripts import read_last_seen, read_moves
from eventlog.errors import BlobErased
from eventlog.events import PieceKind, PromotionRule, Spec, SweepPlanned
from projections.contamination import contaminated_runs
from projections.engine.views import Views
from projections.memories import candidacies, piece_kind
from projections.rewards import REWARDS, RewardState
from projections.runs import RUNS
from projections.taint import left_out

from ..house import House
from .capture import propose


def lessons_from(
    house: House, sweep: SweepPlanned, rule: PromotionRule, kinds: Collection[PieceKind], *, brings_back: bool = True
) -> None:
    """Append lessons in words of a sweep's runs as candidates under this rule: by contrast, and from what was promoted.

    Only plain runs count: no trials, contaminated or withdrawn runs, and none of a benchmark. Known lessons are not
    proposed again; `brings_back` as in `capture_from`. Raises BlobMissing, BlobDamaged.
    """
    if not kinds:
        return
    views = house.views()
    graded = plain_rewards(views, sweep)
    told = tuple(transcripts_of(house, sweep, graded))
    found = [lesson for template in sweep.templates for lesson in contrast(sweep.environment, template, told)]
    found += _transfer_lessons(house, views, sweep, graded)
    propose(house, views, sweep, found, rule, kinds, brings_back=brings_back)


def plain_rewards(views: Views, sweep: SweepPlanned) -> Mapping[str, RewardState]:
    """Rewards of the sweep's plain runs that may teach, keyed by run."""
    prefix = f"{sweep.sweep}__"
    runs, rewards = views.find(RUNS, prefix), views.find(REWARDS, prefix)
    barred = contaminated_runs(views, prefix) | left_out(views).keys()
    plain = (spec.spec_id for spec in sweep.specs if spec.is_plain and spec.spec_id not in barred)
    return {key: rewards[key] for key in plain if key in rewards and key in runs and runs[key].evaluation is None}


def transcripts_of(house: House, sweep: SweepPlanned, graded: Mapping[str, RewardState]) -> Iterator[Transcript]:
    """Transcripts of the runs in groups whose siblings ended differently. Erased runs are left out."""
    outcomes: dict[str, set[bool]] = {}
    specs = [spec for spec in sweep.specs if spec.spec_id in graded]
    for spec in specs:
        outcomes.setdefault(spec.group_id, set()).add(graded[spec.spec_id].passed)
    for spec in specs:
        if len(outcomes[spec.group_id]) > 1 and (told := read_transcript(house, spec, graded[spec.spec_id])):
            yield told


def read_transcript(house: House, spec: Spec, reward: RewardState) -> Transcript | None:
    """Transcript of a graded run; None if it was erased. Raises BlobMissing, BlobDamaged."""
    try:
        moves = read_moves(house.store, house.blobs, spec.spec_id)
    except BlobErased:
        return None
    score = reward.score if reward.value is None else reward.value
    return Transcript(spec.spec_id, spec.template, spec.group_id, reward.passed, score, moves)


def with_last_seen(house: House, transcript: Transcript) -> Transcript:
    """A transcript with what its run saw last, if it failed and was not erased. Raises BlobMissing, BlobDamaged."""
    try:
        seen = "" if transcript.passed else read_last_seen(house.store, house.blobs, transcript.run)
    except BlobErased:
        return transcript
    return replace(transcript, seen=seen)


def _transfer_lessons(
    house: House, views: Views, sweep: SweepPlanned, graded: Mapping[str, RewardState]
) -> tuple[Captured, ...]:
    """What was promoted, for the sweep's failing tasks: lessons of other clusters, and changes of plans in words."""
    failed = {spec.template: spec.spec_id for spec in reversed(sweep.specs) if _has_failed(graded, spec)}
    if not failed:
        return ()
    states = candidacies(views)
    promoted = (
        state for state in states.values() if state.status == "promoted" and piece_kind(state) not in WHOLE_TEXTS
    )
    decided = {key for key, state in states.items() if state.status != "candidate"}
    loaded = (load_piece(state, content_reader(house.blobs)) for state in promoted)
    pieces = [piece for piece in loaded if piece is not None]
    lessons = [piece for piece in pieces if isinstance(piece, OccasionPiece) and piece.is_in_words]
    changes = [piece for piece in pieces if piece not in lessons]
    failing = [template for template in sweep.templates if template.template_id in failed]
    said = (say_promoted(sweep.environment, each, changes, failed[each.template_id]) for each in failing)
    return (*transfer(sweep.environment, lessons, failing, failed, decided), *chain.from_iterable(said))


def _has_failed(graded: Mapping[str, RewardState], spec: Spec) -> bool:
    return spec.spec_id in graded and not graded[spec.spec_id].passed
