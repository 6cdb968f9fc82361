"""Decide the next step of a warm-up from the log alone, so that a killed one resumes where it stopped.

A first base model is trained on demonstrations of a site's tasks, one turn at a time. Each turn continues from the one
before and is measured by a sweep. The measurements decide which turn is chosen, so a later but worse one is not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from agents.models.local.host import base_model_name
from eventlog.events import FrozenModel, SftQuery, SweepPlanned, Tokens, WarmupConfig
from eventlog.events.training import Number
from projections.checkpoints import WEIGHTS, WeightsState
from projections.engine.views import Views
from projections.frozen_datasets import CHECKPOINTS, DatasetState
from projections.rewards import REWARDS
from projections.runs import DEMONSTRATION
from projections.trainings import TRAININGS
from trainer.tiny import Shape

from ..course import WARM_UP
from ..queries.champion import present_champion
from ..queries.facts import require
from ..queries.runs import pending_specs
from ..queries.sweeps import names_planned_by

_MICRO = 1_000_000

Seeds = Annotated[int, Field(ge=1, le=9_000)]


class WarmingCourse(FrozenModel):
    """Configuration of a warm-up: how a first base model is made and when it is good enough.

    Each task is demonstrated at `demonstrated` seeds, and each turn is measured at `measured` other seeds. The first
    turn uses the configuration `first`, later ones `further`, each with another seed. The warm-up ends when a turn's
    success rate reaches `low`, or after `turns` turns, and takes the turn nearest to the band from `low` to `high`.
    The default sizes suit one task on a CPU.
    """

    shape: Shape = Shape("llama", vocabulary=640, hidden=128, layers=3, inner=384, longest=2048)
    demonstrated: Seeds = 200
    measured: Seeds = 30
    first: WarmupConfig = WarmupConfig(steps=180, learning_rate="0.003", rows_per_step=3)
    further: WarmupConfig = WarmupConfig(steps=30, learning_rate="0.001", rows_per_step=3, seed=1)
    turns: Annotated[int, Field(ge=1, le=100)] = 8
    low: Number = "0.35"
    high: Number = "0.5"

    @model_validator(mode="after")
    def _is_a_band(self) -> Self:
        if not Decimal(self.low) <= Decimal(self.high) <= 1:
            raise ValueError(f"low {self.low} to high {self.high} is not a range: expected low <= high <= 1")
        return self

    def stage(self, number: int) -> WarmupConfig:
        """Configuration of a turn; turns are counted from 0."""
        if number == 0:
            return self.first
        return self.further.model_copy(update={"seed": self.further.seed + number - 1})

    def is_warm(self, success: int) -> bool:
        """True if a success rate in millionths is high enough to end the warm-up."""
        return success >= Decimal(self.low) * _MICRO

    def away(self, success: int) -> Decimal:
        """Distance of a success rate from the band, both in millionths."""
        return max(Decimal(self.low) * _MICRO - success, success - Decimal(self.high) * _MICRO, Decimal(0))


@dataclass(frozen=True, slots=True)
class WarmupTurn:
    """One turn: the base model it saved, its measurement, and the training steps of all turns so far.

    `success` is the share of the measuring sweep's runs that passed, in millionths; None: the sweep has not ended.
    """

    number: int
    weights: WeightsState
    steps: int
    sweep: SweepPlanned | None
    success: int | None


What = Literal["show", "freeze", "train", "measure", "take"]


@dataclass(frozen=True, slots=True)
class WarmingNext:
    """The next step and the reason for it. `turn` is the turn to measure, continue or take; None: there is none yet."""

    what: What
    why: str
    shown: SweepPlanned | None = None
    dataset: DatasetState | None = None
    turn: WarmupTurn | None = None


def measured_name(site: str, base: str) -> str:
    """Name of the sweep that measures a base model."""
    return f"{site}-measured-{base[:12]}"


def decide_warming(
    views: Views,
    own: Sequence[SweepPlanned],
    rounds: Iterable[SweepPlanned],
    *,
    course: WarmingCourse,
    site: str,
    tasks: Collection[str],
) -> WarmingNext:
    """Decide the next step. `own` are the warm-up's sweeps on the site, `rounds` the slow loop's.

    A base that the slow loop has already used stays chosen, whatever the course is now.
    """
    shown = _newest_demonstrations(views, own, course, tasks)
    if shown is None:
        return WarmingNext("show", "no demonstrations of these tasks were planned")
    if pending_specs(views, shown.specs, f"{shown.sweep}__"):
        return WarmingNext("show", "demonstrations were planned and have not ended", shown)
    every = datasets_of(views, {shown.sweep})
    played = {sweep.model for sweep in rounds}
    for turn in reversed(_turns(views, own, site, every)):
        if base_model_name(turn.weights.checkpoint) in played:
            return WarmingNext("take", "rounds were played with it", shown, turn=turn)
    dataset = max(every, key=lambda state: state.frozen_since, default=None)
    if dataset is None:
        return WarmingNext("freeze", f"{shown.sweep} has ended, and its runs are in no dataset", shown)
    return _within(_turns(views, own, site, [dataset]), course, shown, dataset)


def _within(
    turns: Sequence[WarmupTurn], course: WarmingCourse, shown: SweepPlanned, dataset: DatasetState
) -> WarmingNext:
    """The next step with one dataset."""
    for turn in turns:
        if turn.success is None:
            return WarmingNext("measure", "a base was saved, and what it passes is not known", shown, dataset, turn)
    last = turns[-1] if turns else None
    is_over = len(turns) >= course.turns or any(course.is_warm(require(turn.success)) for turn in turns)
    if not is_over:
        return WarmingNext("train", f"{len(turns)} of {course.turns} turns were made", shown, dataset, last)
    return WarmingNext("take", "it is the nearest to the band", shown, dataset, nearest(turns, course))


def nearest(turns: Sequence[WarmupTurn], course: WarmingCourse) -> WarmupTurn:
    """The turn whose success rate is nearest to the band; the first one on a tie. All turns must be measured."""
    return min(turns, key=lambda turn: (course.away(require(turn.success)), turn.number))


def _newest_demonstrations(
    views: Views, own: Sequence[SweepPlanned], course: WarmingCourse, tasks: Collection[str]
) -> SweepPlanned | None:
    """The newest demonstrations of these tasks; unless a base was trained on them, only if they are enough."""
    for sweep in reversed(own):
        if sweep.executor == DEMONSTRATION and tasks_in(sweep) == set(tasks):
            is_enough = len(sweep.specs) >= course.demonstrated * len(tasks)
            return sweep if is_enough or _bases(views, datasets_of(views, {sweep.sweep})) else None
    return None


def _turns(
    views: Views, own: Sequence[SweepPlanned], site: str, datasets: Sequence[DatasetState]
) -> tuple[WarmupTurn, ...]:
    """Every base model trained on these datasets as a turn, in order."""
    planned = {sweep.sweep: sweep for sweep in own}
    turns: list[WarmupTurn] = []
    for number, weights in enumerate(_bases(views, datasets)):
        training = require(views.get(TRAININGS, weights.training))
        steps = training.stage_config().steps + (turns[-1].steps if turns else 0)
        sweep = planned.get(measured_name(site, weights.checkpoint))
        turns.append(WarmupTurn(number, weights, steps, sweep, None if sweep is None else success_of(views, sweep)))
    return tuple(turns)


def success_of(views: Views, sweep: SweepPlanned) -> int | None:
    """The share of a sweep's runs that passed, in millionths; None if it has not ended.

    A run that the platform could not play counts as not passed.
    """
    prefix = f"{sweep.sweep}__"
    if pending_specs(views, sweep.specs, prefix):
        return None
    rewards = views.find(REWARDS, prefix)
    passed = sum(rewards[spec.spec_id].passed for spec in sweep.specs if spec.spec_id in rewards)
    return passed * _MICRO // len(sweep.specs)


def datasets_of(views: Views, sweeps: Collection[str]) -> tuple[DatasetState, ...]:
    """Datasets frozen from these sweeps' demonstrations."""
    frozen = views.find(CHECKPOINTS, "dataset/").values()
    return tuple(state for state in frozen if state.parse_query().sweep in sweeps and tokens_in(state) is not None)


def tokens_in(dataset: DatasetState) -> Tokens | None:
    """Tokenizer of a dataset of demonstrations; None for other datasets."""
    query = dataset.parse_query()
    return query.tokens if isinstance(query, SftQuery) else None


def measured_seeds(own: Sequence[SweepPlanned], tasks: Collection[str], amount: int) -> tuple[int, ...]:
    """Seeds of the last measuring sweep, so that turns differ only by the base; empty if it had fewer than `amount`."""
    for sweep in reversed(own):
        if sweep.executor != DEMONSTRATION and tasks_in(sweep) == set(tasks):
            seeds = dict.fromkeys(spec.env_seed for spec in sweep.specs)
            return tuple(seeds) if len(seeds) >= amount else ()
    return ()


def tasks_in(sweep: SweepPlanned) -> set[str]:
    """Oracle task ids of a sweep."""
    return {template.oracle_task_id for template in sweep.templates}


def _bases(views: Views, datasets: Iterable[DatasetState]) -> list[WeightsState]:
    """Base models trained on these datasets, in the order in which they were saved."""
    names = {state.dataset for state in datasets}
    found = (state for state in views.find(WEIGHTS).values() if state.is_base and state.dataset in names)
    return sorted(found, key=lambda state: state.since)


def bases_of(views: Views, sweeps: Collection[str]) -> tuple[str, ...]:
    """Digests of the base models trained on these sweeps' demonstrations, in order."""
    return tuple(state.checkpoint for state in _bases(views, datasets_of(views, sweeps)))


def newest_base(views: Views, but: Collection[str] = ()) -> str | None:
    """Digest of the newest warmed-up base model that is not in `but`; None if there is none."""
    warmed = [state for state in views.find(WEIGHTS).values() if state.is_base and state.checkpoint not in but]
    last = max(warmed, key=lambda state: state.since, default=None)
    return None if last is None else last.checkpoint


def present_base(views: Views) -> str | None:
    """Digest of the base model that a slow loop takes unless one is named; None: it is to make one.

    That is the last one warmed up by hand, else the champion's. Those of a loop's own warm-up are left out: the warm-up
    chooses among them.
    """
    newest = newest_base(views, but=bases_of(views, names_planned_by(views, WARM_UP)))
    state = views.get(WEIGHTS, present_champion(views).pointed_artifact().weights)
    if newest is not None or state is None:
        return newest
    return state.checkpoint if state.is_base else state.base
