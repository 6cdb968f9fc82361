"""Runs: how each ended, what it earned, and what takes it out of learning."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import asdict, replace

from eventlog.store import EventStore
from projections.contamination import contaminated_among, is_contaminated
from projections.engine.paging import PAGE
from projections.engine.views import Views
from projections.rewards import REWARDS, RewardState
from projections.runs import OUTSIDE, RUNS, RunState
from projections.taint import TaintState, erased_runs, withdrawals

from ..errors import RunSealed, Unknown
from .events import LoggedEvent, list_events
from .facts import find_state
from .paging import MOST_READ, filter_page
from .sealed import hide_results
from .untold import RunSealedElsewhere, find_confirming, find_hidden, is_sealed_elsewhere, tell_status

if TYPE_CHECKING:
    from eventlog.events import Spec

WAY_OUT = "List them with `flywheel runs list` or GET /v1/runs."


class MarkedRun(RunState, frozen=True, kw_only=True):
    """A run and its marks: the positions since which it is `withdrawn` or its subject `erased`, null where it is not.

    A `contaminated` run began from another state than the runs that it is compared with. Of a sealed run whose
    benchmark can judge, `status` is started, ended or missing, and what it did is null.
    """

    steps: int | None  # type: ignore[assignment]
    mutations: int | None  # type: ignore[assignment]
    withdrawn: int | None
    erased: int | None
    contaminated: bool


class GradedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run and its grade in force.

    `reward` is null where it was not graded, or is sealed and may not be told while its benchmark can judge.
    """

    run: MarkedRun
    reward: RewardState | None


class RunReward(msgspec.Struct, frozen=True):
    """Reward and cost of a run, in micro-units, by a `version` of its verifier; null is unknown.

    `shaped` and `steps` are what the potential and the steps earned beside the score.
    """

    score: int
    passed: bool
    value: int | None
    cost: int | None
    shaped: int | None
    steps: int | None
    version: str


_OF_GRADE = RunReward.__struct_fields__


class RunRow(MarkedRun, frozen=True, kw_only=True):
    """A run in a list; `reward` is null where it was not graded, or may not be told yet."""

    reward: RunReward | None


class RewardAnswer(msgspec.Struct, frozen=True):
    """The position of a reported reward in the log."""

    run: str
    position: int


class OpinionAnswer(msgspec.Struct, frozen=True):
    """The name of the judge that an opinion is kept under, and the position of the opinion in the log."""

    run: str
    judge: str
    position: int


class RunPage(msgspec.Struct, frozen=True, kw_only=True):
    """Runs in order of name; `next` is the name to continue after, null where no more follow.

    Where runs of a span of time are asked for they come in order of their beginning, and `next` is a position.
    """

    runs: tuple[RunRow, ...]
    next: str | None


class RunAnswer(GradedRun, frozen=True, kw_only=True):
    """A run, its grade in force, and its events; `next` is the position to continue after, null if none follows."""

    events: tuple[LoggedEvent, ...]
    next: int | None


class RunFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which runs to list; None asks for all. `prefix` is the sweep or evaluation that the name begins with.

    `text` is in the name, the template or the instruction of a run, in whatever case. `status` is as it may be told.
    """

    prefix: str | None = None
    sweep: str | None = None
    evaluation: str | None = None
    template: str | None = None
    status: str | None = None
    environment: str | None = None
    text: str | None = None
    is_failed: bool = False
    is_passed: bool = False

    @property
    def is_any(self) -> bool:
        """True if every run is wanted."""
        return self == RunFilter()

    def keep(self, views: Views, page: dict[str, RunState]) -> dict[str, RunState]:
        """The runs of a page that are wanted; one that must have passed or failed was graded so, and may be told of."""
        asked = {name: value for name in _NAMED if (value := getattr(self, name)) is not None}
        found = {key: run for key, run in page.items() if all(getattr(run, name) == asked[name] for name in asked)}
        if self.prefix is not None:
            found = {key: run for key, run in found.items() if key.startswith(f"{self.prefix}__")}
        if self.text is not None:
            found = {key: run for key, run in found.items() if _has_text(run, self.text.casefold())}
        hidden = find_hidden(views, found.values())
        confirming = find_confirming(views, found, hidden)
        found = {key: run for key, run in found.items() if key not in confirming}
        if self.status is not None:
            status = {key: tell_status(run) if key in hidden else run.status for key, run in found.items()}
            found = {key: run for key, run in found.items() if status[key] == self.status}
        if not (self.is_passed or self.is_failed):
            return found
        rewards = views.pick(REWARDS, found.keys() - hidden)
        return {key: run for key, run in found.items() if key in rewards and rewards[key].passed is self.is_passed}


def _has_text(run: RunState, text: str) -> bool:
    return any(text in value.casefold() for value in (run.run, run.template, run.instruction))


_NAMED = ("sweep", "evaluation", "template", "environment")
_UNTOLD = dict.fromkeys(("steps", "mutations", "actions", "wall_microseconds"))


def find_runs(
    views: Views, wanted: RunFilter, *, after: str | None, limit: int, most_read: int | None = None
) -> tuple[tuple[GradedRun, ...], str | None]:
    """A page of runs with their grades, and the name to continue after.

    With `most_read`, a page ends after so many runs were looked at, even if few of them are wanted.
    """
    prefix, keep = _prefix_of(views, wanted), partial(wanted.keep, views)
    size = PAGE if replace(wanted, prefix=None) != RunFilter() else min(PAGE, limit + 1)
    page, following = filter_page(
        views, RUNS, keep, prefix=prefix, after=after, limit=limit, most_read=most_read, size=size
    )
    return tuple(_grade_runs(views, page).values()), following


def pick_runs(views: Views, names: Collection[str]) -> dict[str, GradedRun]:
    """Started runs of these names that may be told of, with their grades, by name."""
    return _grade_runs(views, RunFilter().keep(views, views.pick(RUNS, names)))


def _grade_runs(views: Views, page: Mapping[str, RunState]) -> dict[str, GradedRun]:
    hidden = find_hidden(views, page.values())
    rewards = views.pick(REWARDS, page.keys() - hidden)
    withdrawn, erased = (withdrawals(views), erased_runs(views)) if page else ({}, {})
    contaminated = contaminated_among(views, page.values())
    return {
        key: GradedRun(
            run=_mark_run(run, withdrawn, erased, is_contaminated=key in contaminated, is_hidden=key in hidden),
            reward=rewards.get(key),
        )
        for key, run in page.items()
    }


def _prefix_of(views: Views, wanted: RunFilter) -> str:
    """How the names of all wanted runs begin. Runs of a sweep or evaluation of ours begin with its name."""
    if wanted.prefix is not None:
        return f"{wanted.prefix}__"
    for name in (wanted.evaluation, wanted.sweep):
        if name is not None and not name.startswith(OUTSIDE) and views.page(RUNS, limit=1, prefix=f"{name}__"):
            return f"{name}__"
    return ""


def list_runs(views: Views, wanted: RunFilter, *, after: str | None, limit: int) -> RunPage:
    """A page of runs with their rewards."""
    page, following = find_runs(views, wanted, after=after, limit=limit, most_read=MOST_READ)
    return RunPage(runs=tuple(row_of_run(found) for found in page), next=following)


def show_run(
    store: EventStore, views: Views, run: str, *, after: int = 0, limit: int | None = None, is_raw: bool = False
) -> RunAnswer:
    """One run with its grade and a page of at most `limit` of its events (None: all of them). Raises Unknown.

    Results of a sealed run are left out while its benchmark can judge; with `is_raw` its events tell them.
    """
    state = require_run(views, run)
    hidden = find_hidden(views, [state])
    if find_confirming(views, {run: state}, hidden) and not is_raw:
        raise unknown_run(run)
    marks = withdrawals(views), erased_runs(views)
    page = list_events(store, views.upto, after=after, limit=limit, stream=f"run/{run}")
    return RunAnswer(
        run=_mark_run(state, *marks, is_contaminated=is_contaminated(views, state), is_hidden=run in hidden),
        reward=None if run in hidden else views.get(REWARDS, run),
        events=page.events if is_raw else hide_results(views, page.events),
        next=page.next,
    )


def require_run(views: Views, run: str) -> RunState:
    """The state of a run. Raises Unknown."""
    return find_state(views, RUNS, run, what="run", way_out=WAY_OUT)


def refuse_hidden_run(views: Views, run: str) -> None:
    """Raise RunSealed if what a run did may not be told."""
    if is_sealed_elsewhere(run):
        raise RunSealedElsewhere(run=run)
    state = views.get(RUNS, run)
    if state is not None and find_hidden(views, [state]):
        raise RunSealed(run=run, benchmark=state.benchmark)


def unknown_run(named: str) -> Unknown:
    """The error that no run has this name, or these names."""
    return Unknown(what="run", actual=named, way_out=WAY_OUT)


def _mark_run(
    run: RunState,
    withdrawn: dict[str, TaintState],
    erased: dict[str, TaintState],
    *,
    is_contaminated: bool,
    is_hidden: bool,
) -> MarkedRun:
    told = {**asdict(run), **_UNTOLD, "status": tell_status(run), "is_sealed": True} if is_hidden else asdict(run)
    since = _since(withdrawn, run), _since(erased, run)
    return MarkedRun(**told, withdrawn=since[0], erased=since[1], contaminated=is_contaminated)


def _since(facts: dict[str, TaintState], run: RunState) -> int | None:
    return facts[run.run].since if run.run in facts else None


def row_of_run(found: GradedRun) -> RunRow:
    """A run with its grade as lists show it."""
    grade = found.reward
    reward = None if grade is None else RunReward(**{name: getattr(grade, name) for name in _OF_GRADE})
    return RunRow(**asdict(found.run), reward=reward)


def pending_specs(views: Views, specs_: Sequence[Spec], prefix: str) -> tuple[Spec, ...]:
    """The specs whose run has not ended, in order."""
    done = ended_runs(views, prefix)
    return tuple(spec for spec in specs_ if spec.spec_id not in done)


def ended_runs(views: Views, prefix: str) -> frozenset[str]:
    """The runs under a prefix that have ended."""
    return frozenset(key for key, state in views.find(RUNS, prefix).items() if state.is_ended)


def count_ended_runs(views: Views, prefix: str, *, most: int) -> int:
    """How many of the first `most` runs under a prefix have ended."""
    return sum(state.is_ended for state in views.page(RUNS, limit=most, prefix=prefix).values())
