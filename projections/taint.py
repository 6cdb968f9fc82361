"""Taint: withdrawn runs, erased subjects, and everything learned directly from a run.

Each key holds one fact, so states do not grow: `withdrawn/<position>`, `erased/<subject>`, `learned/<position>`, and
for a run `subject/<subject>/<run>` if it has a subject, else `played/<memory>/<run>`. Keys contain the SHA-256 of
subjects, so that a key prefix matches exactly one subject.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from .champions import CHAMPION, CHAMPIONS, ChampionState
from .checkpoints import WEIGHTS, checkpoints_trained_on, descendants
from .engine.paging import page_states
from .engine.projection import EventRow, Fold, FoldState
from .frozen_datasets import CHECKPOINTS, DatasetState
from .runs import RUNS
from .verdicts import VERDICTS

if TYPE_CHECKING:
    from eventlog.events import Artifact, PieceKind

    from .engine.views import Views

WITHDRAWALS = "withdrawals"
"""Stream of the events that withdraw runs."""

WITHDRAWN = "withdrawn/"
ERASED = "erased/"
LEARNED = "learned/"
SUBJECT = "subject/"
PLAYED = "played/"


class TaintState(FoldState, frozen=True, kw_only=True):
    """One fact and the position of its event; fields that do not apply to this kind of fact are empty.

    `runs` are the withdrawn runs, the run played, or those from which the piece (of this `kind`) was learned: the run,
    then its controls. `weights` and `memory` (its digest) identify the artifact that the run played.
    """

    since: int = 0
    runs: tuple[str, ...] = ()
    reason: str = ""
    subject: str = ""
    weights: str = ""
    memory: str = ""
    piece: str = ""
    kind: str = ""


_PROPOSED: Final = "PieceProposed"
_RECORDED: Final[Mapping[str, PieceKind]] = {
    "RewriteProposed": "rewrite",
    "HintRecorded": "hint",
    "ExemplarCaptured": "exemplar",
    "SnippetLearned": "snippet",
    "RecipeImported": "recipe",
}
"""The events that record a piece of memory, and its kind, which is also the name of the event's id field."""

Holding = Callable[[DatasetState, Set[str]], bool]
"""True if the rows of a frozen dataset include one of these runs. Folds cannot tell: they hold no dataset rows."""


@dataclass(frozen=True, slots=True)
class Tainted:
    """Everything learned directly from some runs, with names in order of their bytes.

    `rewrites` were proposed in one of the runs, or tried with one (also as a control); `pieces` are those of all other
    kinds likewise. `datasets` include one of the runs, `checkpoints` were trained on these, and
    `checkpoints_under` descend from those. `evaluations` have one of the runs in an arm, `champions` are the positions
    of champions pointed to on their verdicts. `runs_under` are other runs to which one of the rewrites or pieces was
    applied, `rewrites_under` and `pieces_under` were learned from these: they are listed, never removed.
    """

    runs: tuple[str, ...]
    rewrites: tuple[str, ...]
    datasets: tuple[str, ...]
    checkpoints: tuple[str, ...]
    checkpoints_under: tuple[str, ...]
    evaluations: tuple[str, ...]
    champions: tuple[int, ...]
    runs_under: tuple[str, ...]
    rewrites_under: tuple[str, ...]
    pieces: tuple[str, ...] = ()
    pieces_under: tuple[str, ...] = ()


def trace_taint(views: Views, runs: Collection[str], holding: Holding) -> Tainted:
    """Everything learned from these runs, as of the views' position. Unknown runs are ignored."""
    known = views.pick(RUNS, runs)
    among = frozenset(known)
    learned = _pieces_learned(views, among)
    under = frozenset(run for run in _runs_applying(views, learned.keys()) if run not in among)
    further = _pieces_learned(views, under)
    evaluations = {evaluation for run in among if (evaluation := known[run].evaluation) is not None}
    judged = {key for key, state in views.find(VERDICTS).items() if key in evaluations and state.decision is not None}
    pointed = (change.state for change in views.history(CHAMPIONS, CHAMPION))
    frozen = views.find(CHECKPOINTS, "dataset/").values() if among else ()
    datasets = {state.dataset for state in frozen if holding(state, among)}
    weights = views.find(WEIGHTS)
    checkpoints = checkpoints_trained_on(weights.values(), datasets)
    return Tainted(
        runs=_in_order(among),
        rewrites=_in_order(piece for piece, kind in learned.items() if kind == "rewrite"),
        datasets=_in_order(datasets),
        checkpoints=_in_order(checkpoints),
        checkpoints_under=descendants(weights, checkpoints),
        evaluations=_in_order(evaluations),
        champions=_pointed_on(pointed, judged),
        runs_under=_in_order(under),
        rewrites_under=_in_order(p for p, kind in further.items() if kind == "rewrite" and p not in learned),
        pieces=_in_order(piece for piece, kind in learned.items() if kind != "rewrite"),
        pieces_under=_in_order(p for p, kind in further.items() if kind != "rewrite" and p not in learned),
    )


def withdrawals(views: Views) -> dict[str, TaintState]:
    """Every withdrawn run, with the fact of its first withdrawal."""
    found: dict[str, TaintState] = {}
    for state in views.find(TAINT, WITHDRAWN).values():
        for run in state.runs:
            found.setdefault(run, state)
    return found


def erasures(views: Views) -> dict[str, TaintState]:
    """Every erased subject, with the fact of its erasure."""
    return {state.subject: state for state in views.find(TAINT, ERASED).values()}


def erasure(views: Views, subject: str) -> TaintState | None:
    """The fact of a subject's erasure, or None."""
    return views.get(TAINT, f"{ERASED}{_hash_subject(subject)}")


def runs_of_subject(views: Views, subject: str) -> tuple[str, ...]:
    """The runs that read or wrote a subject's data, in order of the bytes of their names."""
    return _in_order(run for state in views.find(TAINT, _of_subject(subject)).values() for run in state.runs)


def erased_runs(views: Views) -> dict[str, TaintState]:
    """Every run whose subject was erased, with the fact of the erasure."""
    return {run: state for subject, state in erasures(views).items() for run in runs_of_subject(views, subject)}


def left_out(views: Views) -> dict[str, str]:
    """The runs excluded from learning, and why: `withdrawn` or `erased`."""
    return dict.fromkeys(erased_runs(views), "erased") | dict.fromkeys(withdrawals(views), "withdrawn")


def runs_of_artifact(views: Views, artifact: Artifact, *, after: int) -> tuple[str, ...]:
    """Runs started after a position with the same weights and memory content as an artifact."""
    played = (
        *views.find(TAINT, f"{PLAYED}{artifact.memory.digest}/").values(),
        *(state for state in views.find(TAINT, SUBJECT).values() if state.memory == artifact.memory.digest),
    )
    return _in_order({run for s in played if s.weights == artifact.weights and s.since > after for run in s.runs})


def _pieces_learned(views: Views, runs: Set[str]) -> dict[str, str]:
    """The pieces proposed in one of these runs, or tried with one, with their kinds."""
    learned = (state for page in page_states(views, TAINT, prefix=LEARNED) for state in page.values()) if runs else ()
    return {state.piece: state.kind for state in learned if not runs.isdisjoint(state.runs)}


def _runs_applying(views: Views, pieces: Set[str]) -> Iterator[str]:
    """The runs to which one of these pieces was applied."""
    for page in page_states(views, RUNS) if pieces else ():
        yield from (run for run, state in page.items() if not pieces.isdisjoint(state.applied))


def _pointed_on(states: Iterable[ChampionState | None], evaluations: Set[str]) -> tuple[int, ...]:
    return tuple(state.since for state in states if state is not None and state.evaluation in evaluations)


def _in_order(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(names, key=str.encode))


def _hash_subject(subject: str) -> str:
    return hashlib.sha256(subject.encode()).hexdigest()


def _of_subject(subject: str) -> str:
    return f"{SUBJECT}{_hash_subject(subject)}/"


def key_of_withdrawal(position: int) -> str:
    """The key of the withdrawal at a position; they sort by position."""
    return f"{WITHDRAWN}{position:020d}"


def _key(row: EventRow) -> str | None:
    match row.type:
        case "RunStarted":
            subject = row.maybe_text("subject")
            begins = f"{PLAYED}{row.text('artifact.memory.digest')}/" if subject is None else _of_subject(subject)
            return f"{begins}{row.text('run')}"
        case "RunsWithdrawn":
            return key_of_withdrawal(row.position)
        case "SubjectErased":
            return f"{ERASED}{_hash_subject(row.text('subject'))}"
        case kind if kind in {*_RECORDED, _PROPOSED} and row.maybe_text("run") is None:
            return None
        case _:
            return f"{LEARNED}{row.position:020d}"


def _fold(state: TaintState, row: EventRow) -> TaintState:
    if state.since:
        return state  # a run is started once, a subject erased once: the first fact is kept
    match row.type:
        case "RunStarted":
            return TaintState(
                since=row.position,
                runs=(row.text("run"),),
                subject=row.maybe_text("subject") or "",
                weights=row.text("artifact.weights"),
                memory=row.text("artifact.memory.digest"),
            )
        case "RunsWithdrawn":
            return TaintState(since=row.position, runs=tuple(row.records("runs")), reason=row.text("reason"))
        case "SubjectErased":
            return TaintState(since=row.position, subject=row.text("subject"), reason=row.text("reason"))
        case "PieceTried" | "RewriteWon" | "RewriteLost" as kind:
            runs = (row.text("run"), *row.records("control_runs"))
            if kind == "PieceTried":
                return TaintState(since=row.position, runs=runs, piece=row.text("piece"), kind=row.text("kind"))
            return TaintState(since=row.position, runs=runs, piece=row.text("rewrite"), kind="rewrite")
        case "PieceProposed":
            run, piece = row.text("run"), row.text("piece")
            return TaintState(since=row.position, runs=(run,), piece=piece, kind=row.text("kind"))
        case _:
            of = _RECORDED[row.type]
            return TaintState(since=row.position, runs=(row.text("run"),), piece=row.text(of), kind=of)


TAINT = Fold(
    name="taint",
    version=5,
    reads={
        "RunStarted": ("run", "subject", "artifact.weights", "artifact.memory.digest"),
        **{event: (kind, "run") for event, kind in _RECORDED.items()},
        _PROPOSED: ("piece", "kind", "run"),
        "RewriteWon": ("rewrite", "run", "control_runs"),
        "RewriteLost": ("rewrite", "run", "control_runs"),
        "PieceTried": ("piece", "kind", "run", "control_runs"),
        "RunsWithdrawn": ("runs", "reason"),
        "SubjectErased": ("subject", "reason"),
    },
    initial=TaintState(),
    key=_key,
    fold=_fold,
)
