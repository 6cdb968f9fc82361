"""Taint: which runs were withdrawn, whose bytes were erased, and what was learned from a run, at first order.

A key is one fact, so that no state grows: `withdrawn/<position>`, `erased/<subject>`, `learned/<position>`, and for a
run `subject/<subject>/<run>` where its data is somebody's, else `played/<memory>/<run>`. Subjects stand in keys by
their SHA-256, so that a prefix is exactly one of them, whatever it is called.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from .champions import CHAMPION, CHAMPIONS, ChampionState
from .checkpoints import WEIGHTS, checkpoints_trained_on, descendants
from .engine.projection import EventRow, Fold, FoldState
from .frozen_datasets import CHECKPOINTS, DatasetState
from .runs import RUNS
from .verdicts import VERDICTS

if TYPE_CHECKING:
    from eventlog.events import Artifact, PieceKind

if TYPE_CHECKING:
    from .engine.views import Views

WITHDRAWN = "withdrawn/"
ERASED = "erased/"
LEARNED = "learned/"
SUBJECT = "subject/"
PLAYED = "played/"


class TaintState(FoldState, frozen=True, kw_only=True):
    """One fact and the position it was stated at; fields that this kind of fact has no use for are empty.

    `runs` are those withdrawn, the one played, or those that a piece of memory (of this `kind`) was learned from: the
    run, then its controls. `weights` and `memory` (its digest) are what the run was played with.
    """

    since: int = 0
    runs: tuple[str, ...] = ()
    reason: str = ""
    subject: str = ""
    weights: str = ""
    memory: str = ""
    piece: str = ""
    kind: str = ""


_RECORDED: Final[Mapping[str, PieceKind]] = {
    "RewriteProposed": "rewrite",
    "HintRecorded": "hint",
    "ExemplarCaptured": "exemplar",
    "SnippetLearned": "snippet",
    "RecipeImported": "recipe",
}
"""What records a piece of memory, and its kind, which is also the name of the field with its id."""

Holding = Callable[[DatasetState, Set[str]], bool]
"""Whether the rows of a frozen dataset hold one of these runs. No fold can say: a dataset is a query and a position."""


@dataclass(frozen=True, slots=True)
class Tainted:
    """What was learned from runs, at first order; names in order of their bytes.

    `rewrites` were proposed in one of the runs, or won or lost by one (also as a control); `pieces` are the hints,
    exemplars, snippets and recipes of which the same is true. `evaluations` have one in an arm, `champions` are the
    positions at which one was pointed on such a verdict. `checkpoints` were trained on one of the datasets,
    `checkpoints_under` go on from those. `runs_under` are other runs that one of the rewrites or pieces was applied in,
    `rewrites_under` and `pieces_under` what was learned from those: listed, never removed.
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
    """What was learned from these runs, as of what `views` show. Runs that nothing is known of taint nothing."""
    known = views.find(RUNS)
    among = frozenset(runs) & known.keys()
    learned = _pieces_learned(views, among)
    under = frozenset(run for run, state in known.items() if run not in among and learned.keys() & {*state.applied})
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
    """Every run that is withdrawn, with the fact that withdrew it first."""
    found: dict[str, TaintState] = {}
    for state in views.find(TAINT, WITHDRAWN).values():
        for run in state.runs:
            found.setdefault(run, state)
    return found


def erasures(views: Views) -> dict[str, TaintState]:
    """Every subject that was erased, with the fact that says so first."""
    return {state.subject: state for state in views.find(TAINT, ERASED).values()}


def erasure(views: Views, subject: str) -> TaintState | None:
    """The fact that a subject was erased, if it was."""
    return views.get(TAINT, f"{ERASED}{_hash_subject(subject)}")


def runs_of_subject(views: Views, subject: str) -> tuple[str, ...]:
    """The runs that read or wrote a subject's data, in order of their bytes."""
    return _in_order(run for state in views.find(TAINT, _of_subject(subject)).values() for run in state.runs)


def erased_runs(views: Views) -> dict[str, TaintState]:
    """Every run whose subject was erased, with the fact that says so."""
    return {run: state for subject, state in erasures(views).items() for run in runs_of_subject(views, subject)}


def left_out(views: Views) -> dict[str, str]:
    """The runs that nothing is learned from any more, and why: `withdrawn` or `erased`."""
    return dict.fromkeys(erased_runs(views), "erased") | dict.fromkeys(withdrawals(views), "withdrawn")


def runs_of_artifact(views: Views, artifact: Artifact, *, after: int) -> tuple[str, ...]:
    """Runs started after a position with these weights and this content of memory, whatever position names it."""
    played = (
        *views.find(TAINT, f"{PLAYED}{artifact.memory.digest}/").values(),
        *(state for state in views.find(TAINT, SUBJECT).values() if state.memory == artifact.memory.digest),
    )
    return _in_order({run for s in played if s.weights == artifact.weights and s.since > after for run in s.runs})


def _pieces_learned(views: Views, runs: Set[str]) -> dict[str, str]:
    """The pieces that were proposed in one of these runs, or won or lost by one, with their kinds."""
    if not runs:
        return {}
    learned = views.find(TAINT, LEARNED).values()
    return {state.piece: state.kind for state in learned if not runs.isdisjoint(state.runs)}


def _pointed_on(states: Iterable[ChampionState | None], evaluations: Set[str]) -> tuple[int, ...]:
    return tuple(state.since for state in states if state is not None and state.evaluation in evaluations)


def _in_order(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(names, key=str.encode))


def _hash_subject(subject: str) -> str:
    return hashlib.sha256(subject.encode()).hexdigest()


def _of_subject(subject: str) -> str:
    return f"{SUBJECT}{_hash_subject(subject)}/"


def _key(row: EventRow) -> str | None:
    match row.type:
        case "RunStarted":
            subject = row.maybe_text("subject")
            begins = f"{PLAYED}{row.text('artifact.memory.digest')}/" if subject is None else _of_subject(subject)
            return f"{begins}{row.text('run')}"
        case "RunsWithdrawn":
            return f"{WITHDRAWN}{row.position:020d}"
        case "SubjectErased":
            return f"{ERASED}{_hash_subject(row.text('subject'))}"
        case kind if kind in _RECORDED and row.maybe_text("run") is None:
            return None
        case _:
            return f"{LEARNED}{row.position:020d}"


def _fold(state: TaintState, row: EventRow) -> TaintState:
    if state.since:
        return state  # a run is started once, a subject erased once: the first fact stands
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
        case _:
            of = _RECORDED[row.type]
            return TaintState(since=row.position, runs=(row.text("run"),), piece=row.text(of), kind=of)


TAINT = Fold(
    name="taint",
    version=3,
    reads={
        "RunStarted": ("run", "subject", "artifact.weights", "artifact.memory.digest"),
        **{event: (kind, "run") for event, kind in _RECORDED.items()},
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
