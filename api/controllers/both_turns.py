"""What a turn of one of both loops gained and cost, read from the log.

Of a verdict only the decision and the visible instances are read: sealed figures choose nothing that is judged again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final

from eventlog.disowned import read_in_force
from eventlog.events import CheckpointSaved, CourseLoop, TrainingFailed, TrainingProgressed, TrainingStarted
from eventlog.store import EventStore, Position
from projections.engine.views import Views
from projections.evaluations import EvaluationEntry
from projections.frozen_datasets import CHECKPOINTS
from projections.runs import RUNS
from projections.sweeps import SWEEP_PLANS, plan_prefix
from projections.trainings import TRAININGS
from projections.verdicts import VERDICTS

from ..course import CONTROLLER, SLOW_CONTROLLER, WARM_UP
from ..queries.benchmarks import evaluations_of
from ..queries.costs import present_prices
from ..queries.facts import require
from .budgets import sum_runs
from .slow_next import slow_benchmarks

_PLANNERS: Final[Mapping[CourseLoop, str]] = {"fast": CONTROLLER, "slow": SLOW_CONTROLLER}


def sweeps_planned(views: Views, site: str, loop: CourseLoop, since: Position) -> tuple[str, ...]:
    """Names of the sweeps that the controller of a loop planned on a site after a position."""
    return _planned_by(views, site, _PLANNERS[loop], since)


def compute_gain(views: Views, site: str, loop: CourseLoop, since: Position) -> int:
    """By how much the promotions of a loop's turn are better, in millionths of mean score.

    That is the difference on the visible instances, and at least the difference that the rules of the gate ask for.
    """
    gain = 0
    for each in _evaluations(views, site, loop, since):
        verdict = require(views.get(VERDICTS, each.evaluation)).verdict_reached()
        if verdict is not None and verdict.decision == "promote":
            seen = verdict.visible
            difference = 0 if seen is None else seen.challenger_mean - seen.champion_mean
            gain += max(difference, verdict.rules.min_mean_delta, 0)
    return gain


def compute_cost(store: EventStore, views: Views, site: str, loop: CourseLoop, since: Position) -> int | None:
    """What a loop's turn cost, in micro-dollars: its runs, recovery's calls, and the seconds of its training.

    A run whose cost is not known counts as much as the mean of the others; if none is known, their seconds count. None
    if these are not known either, or are free.
    """
    names = [*sweeps_planned(views, site, loop, since), *(e.evaluation for e in _evaluations(views, site, loop, since))]
    if loop == "slow":
        names += _planned_by(views, site, WARM_UP, since)
    sums = [sum_runs(views, name, since) for name in names]
    cost, runs = sum(each.micro_dollars for each in sums), sum(each.runs for each in sums)
    priced = runs - sum(each.unpriced for each in sums)
    took = timedelta() if priced else _playing_time(views, names)
    cost = cost * runs // priced if priced else cost
    if loop == "slow":
        took += _training_time(store, views, _trainings(views, site, since), since)
    if took:
        cost += took * present_prices(views).per_second // timedelta(seconds=1)
    return cost if cost or priced or not runs else None


def _planned_by(views: Views, site: str, actor: str, since: Position) -> tuple[str, ...]:
    plans = views.find(SWEEP_PLANS, plan_prefix(actor, site)).values()
    return tuple(e.sweep for e in plans if e.since > since and (e.actor, e.environment) == (actor, site))


def _evaluations(views: Views, site: str, loop: CourseLoop, since: Position) -> tuple[EvaluationEntry, ...]:
    """The evaluations that the controller of a loop opened on a site after a position."""
    slow = slow_benchmarks(views, site)
    opened = (each for each in evaluations_of(views, site) if each.opened_since > since)
    own = (each for each in opened if each.opened_by == _PLANNERS[loop])
    return tuple(each for each in own if (each.benchmark in slow) is (loop == "slow"))


def _trainings(views: Views, site: str, since: Position) -> frozenset[str]:
    """Names of the stages on datasets of a site that something happened to after a position."""
    datasets = views.find(CHECKPOINTS, "dataset/").values()
    own = {each.dataset for each in datasets if each.parse_query().environment == site}
    stages = views.find(TRAININGS).values()
    return frozenset(each.training for each in stages if each.since > since and each.dataset in own)


def _playing_time(views: Views, names: Iterable[str]) -> timedelta:
    """How long the runs of sweeps and evaluations took, as far as it is known."""
    runs = (run for name in names for run in views.find(RUNS, f"{name}__").values())
    return timedelta(microseconds=sum(run.wall_microseconds or 0 for run in runs))


def _training_time(store: EventStore, views: Views, stages: Collection[str], since: Position) -> timedelta:
    """How long stages were trained after a position; of an attempt that was killed, up to its last recorded step."""
    types = ["TrainingStarted", "TrainingProgressed", "TrainingFailed", "CheckpointSaved"]
    before: dict[str, datetime] = {}
    whole = timedelta()
    for recorded in read_in_force(store, after=since, upto=views.upto, types=types):
        event = recorded.event
        if not isinstance(event, TrainingStarted | TrainingProgressed | TrainingFailed | CheckpointSaved):
            continue
        if event.training in stages:
            if not isinstance(event, TrainingStarted):
                whole += recorded.at - before.get(event.training, recorded.at)
            before[event.training] = recorded.at
    return whole
