"""Sweeps of an environment: which are open, which seeds they have used, the last round of each actor, and each plan.

A sweep is open from its plan until `SweepEnded`, so what is next is found without looking at sweeps that are over.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from .engine.projection import EventRow, Fold, FoldState

_LAST = 10**19 - 1

Ranges = tuple[tuple[int, int], ...]
"""Sets of integers as ranges from a first to a last one, in order, with a gap before each but the first."""


class LastRound(FoldState, frozen=True, kw_only=True):
    """The last sweep that an actor planned to learn from."""

    actor: str
    sweep: str


class SweepsState(FoldState, frozen=True, kw_only=True):
    """The sweeps of one environment: how many were planned, and the names of the open ones in order of planning."""

    planned: int = 0
    open: tuple[str, ...] = ()
    seeds: Ranges = ()
    rounds: tuple[LastRound, ...] = ()

    def unused_seeds(self, below: int) -> Iterator[int]:
        """The seeds from 0 that no sweep of the environment was planned with, in order."""
        start = 0
        for first, last in self.seeds:
            yield from range(start, min(first, below))
            start = max(start, last + 1)
        yield from range(start, below)

    def last_round(self, actor: str) -> str | None:
        """The last sweep that an actor planned to learn from, if any."""
        return next((each.sweep for each in self.rounds if each.actor == actor), None)


def ranges_of(numbers: Iterable[int], known: Ranges = ()) -> Ranges:
    """The ranges of these numbers and of those in known ranges."""
    found: list[tuple[int, int]] = []
    for first, last in sorted([*known, *((number, number) for number in set(numbers))]):
        if found and first <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(last, found[-1][1])
        else:
            found.append((first, last))
    return tuple(found)


def _open_sweep(state: SweepsState, row: EventRow) -> SweepsState:
    sweep, is_new = row.text("sweep"), row.version == 1
    rounds = state.rounds
    if is_new and row.field("learns") is not False:
        others = [each for each in rounds if each.actor != row.actor]
        rounds = tuple(sorted([*others, LastRound(actor=row.actor, sweep=sweep)], key=lambda each: each.actor))
    return SweepsState(
        planned=state.planned + is_new,
        open=(*(name for name in state.open if name != sweep), sweep),
        seeds=ranges_of((spec["env_seed"] for spec in row.records("specs")), state.seeds),
        rounds=rounds,
    )


def _fold(state: SweepsState, row: EventRow) -> SweepsState:
    if row.type == "SweepPlanned":
        return _open_sweep(state, row)
    return replace(state, open=tuple(name for name in state.open if name != row.text("sweep")))


SWEEPS = Fold(
    name="sweeps",
    version=1,
    reads={"SweepPlanned": ("sweep", "environment", "specs", "learns"), "SweepEnded": ("sweep", "environment")},
    initial=SweepsState(),
    key=lambda row: row.text("environment"),
    fold=_fold,
)


class PlannedTask(FoldState, frozen=True, kw_only=True):
    """A template of a sweep with its oracle task, and the seeds at which it was planned."""

    template: str
    task: str
    seeds: Ranges


class PlanState(FoldState, frozen=True, kw_only=True):
    """A sweep as an actor planned it, with the siblings that were added; `since` is the position of the first plan."""

    sweep: str = ""
    environment: str = ""
    actor: str = ""
    since: int = 0
    tasks: tuple[PlannedTask, ...] = ()

    def instances(self) -> frozenset[tuple[str, str, int]]:
        """The instances that it was planned with."""
        return frozenset(
            (self.environment, each.task, seed)
            for each in self.tasks
            for first, last in each.seeds
            for seed in range(first, last + 1)
        )


def plan_prefix(actor: str, environment: str = "") -> str:
    """How the keys of an actor's plans begin, on one environment or (empty) on all."""
    return f"{actor}/{environment}/" if environment else f"{actor}/"


def _plan(state: PlanState, row: EventRow) -> PlanState:
    tasks = {each.template: each for each in state.tasks}
    seeds: dict[str, list[int]] = {}
    for spec in row.records("specs"):
        seeds.setdefault(spec["template"], []).append(spec["env_seed"])
    for template in row.records("templates"):
        name, known = template["template_id"], tasks.get(template["template_id"])
        before = () if known is None else known.seeds
        task = PlannedTask(template=name, task=template["oracle_task_id"], seeds=ranges_of(seeds.get(name, ()), before))
        tasks[name] = task
    return PlanState(
        sweep=row.text("sweep"),
        environment=row.text("environment"),
        actor=row.actor,
        since=state.since or row.position,
        tasks=tuple(tasks.values()),
    )


SWEEP_PLANS = Fold(
    name="sweep_plans",
    version=1,
    reads={"SweepPlanned": ("sweep", "environment", "specs", "templates")},
    initial=PlanState(),
    key=lambda row: plan_prefix(row.actor, row.text("environment")) + row.text("sweep"),
    fold=_plan,
)


class NewestSweep(FoldState, frozen=True, kw_only=True):
    """The name of a sweep."""

    sweep: str = ""


def newest_key(since: int) -> str:
    """The key of the sweep whose first plan is at this position: those of later sweeps come before it."""
    return f"{_LAST - since:019d}"


NEWEST_SWEEPS = Fold(
    name="newest_sweeps",
    version=1,
    reads={"SweepPlanned": ("sweep",)},
    initial=NewestSweep(),
    key=lambda row: newest_key(row.position) if row.version == 1 else None,
    fold=lambda _state, row: NewestSweep(sweep=row.text("sweep")),
)
"""Names of all sweeps, newest first."""
