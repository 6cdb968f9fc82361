"""Results that may not be told while a benchmark can judge: figures of evaluations, and results of sealed runs."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from gate.sealed_figures import tells_figures
from projections.alpha import ALPHA
from projections.benchmarks import BENCHMARKS
from projections.delegation.loop_state import LOOP_MARK, LOOP_STEM
from projections.engine.views import Views
from projections.evaluations import EVALUATIONS
from projections.runs import RUNS, RunState
from projections.verdicts import VERDICTS, VerdictState

from ..errors import RunSealed

SEALED_ELSEWHERE: Final = "predict-sealed-"
"""How the sweeps of runs begin that another Flywheel asked for and may not have told of."""
ENDED: Final = "ended"
"""The status that is told of a sealed run that ended: how it ended may be its result."""


class RunSealedElsewhere(RunSealed):
    """What the run {run} did is sealed: another Flywheel grades it. Expected a run of this log; ask there."""


def may_tell(views: Views, benchmark: str, evaluation: str) -> bool:
    """True if the sealed figures of an evaluation may be told."""
    return _may_tell(views, benchmark, evaluation, _find_succeeded(views))


def _may_tell(views: Views, benchmark: str, evaluation: str, succeeded: Collection[str]) -> bool:
    ledger = views.get(ALPHA, benchmark)
    names = [spending.evaluation for spending in ledger.spendings] if ledger is not None and ledger.is_exhausted else ()
    is_playing = any(state.decision is None for state in views.find_each(VERDICTS, names).values())
    return tells_figures(ledger, evaluation, is_succeeded=benchmark in succeeded, is_playing=is_playing)


def _find_succeeded(views: Views) -> frozenset[str]:
    """Benchmarks that have a successor."""
    return frozenset(each.successor_of for each in views.find(BENCHMARKS).values() if each.successor_of is not None)


def find_untold(views: Views, evaluations: Collection[str]) -> frozenset[str]:
    """The evaluations among these whose sealed figures may not be told yet."""
    return untold_among(views, views.pick(VERDICTS, evaluations) if evaluations else {})


def untold_among(views: Views, states: Mapping[str, VerdictState]) -> frozenset[str]:
    """The names of those of these evaluations whose sealed figures may not be told yet."""
    succeeded = _find_succeeded(views) if states else frozenset()
    return frozenset(key for key, state in states.items() if not _may_tell(views, state.benchmark, key, succeeded))


def find_playing(since: Views, views: Views) -> frozenset[str]:
    """Evaluations that were opened by now, were undecided at an earlier time, and may not be told of yet."""
    opened = (each for state in views.find(EVALUATIONS).values() for each in state.evaluations)
    if since is views:
        return find_untold(views, frozenset(each.evaluation for each in opened if each.is_open))
    ended = {
        each.evaluation for state in since.find(EVALUATIONS).values() for each in state.evaluations if not each.is_open
    }
    return find_untold(views, frozenset(each.evaluation for each in opened if each.evaluation not in ended))


def find_hidden(views: Views, runs: Iterable[RunState]) -> frozenset[str]:
    """Names of those of these runs whose results may not be told yet.

    Of a run that another Flywheel asked for as sealed nothing is ever told: its benchmark is not known here.
    """
    runs = tuple(runs)
    foreign = frozenset(run.run for run in runs if is_sealed_elsewhere(run.run))
    sealed = {run.run: run.evaluation for run in runs if run.is_sealed and run.evaluation is not None}
    untold = find_untold(views, frozenset(sealed.values()))
    return foreign | frozenset(run for run, evaluation in sealed.items() if evaluation in untold)


def is_sealed_elsewhere(run: str) -> bool:
    """True for the name of a run that another Flywheel asked for as sealed."""
    return run.startswith(SEALED_ELSEWHERE)


def find_hidden_loops(views: Views, loops: Collection[str]) -> dict[str, RunState]:
    """Those of these delegation loops and sub-managers that play a run whose results may not be told yet, and the run.

    A name may hold the mark elsewhere too, so that the run may be whatever stands before any of them.
    """
    starts = {loop: [loop[: mark.start()] for mark in re.finditer(re.escape(LOOP_MARK), loop)] for loop in loops}
    names = {name for each in starts.values() for name in each}
    runs = dict(views.pick(RUNS, names)) if names else {}
    for name in names:
        if len(name) == LOOP_STEM:
            runs |= views.find(RUNS, name)
    sealed = {run[:LOOP_STEM]: runs[run] for run in find_hidden(views, runs.values())}
    return {loop: sealed[name] for loop, each in starts.items() for name in each if name in sealed}


def find_confirming(views: Views, runs: Mapping[str, RunState], hidden: Collection[str]) -> frozenset[str]:
    """Names of those hidden runs that repeat what looked worse: that they were played tells which instances did."""
    names = {run.benchmark for key, run in runs.items() if key in hidden and run.benchmark is not None}
    repeats = {key: state.repeats for key, state in views.pick(BENCHMARKS, names).items()} if names else {}
    return frozenset(
        key
        for key, run in runs.items()
        if key in hidden and run.repeat is not None and run.repeat >= repeats.get(run.benchmark or "", run.repeat + 1)
    )


def tell_status(run: RunState) -> str:
    """How a sealed run went as far as it may be told: started, ended or missing."""
    return run.status if run.status in {"started", "missing"} else ENDED
