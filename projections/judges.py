"""Judges: the opinions of each judge on a run, and the calibration computed from them and the oracle's grades.

A run that no judge spoke of has no row.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec.structs import replace

from .engine.projection import EventRow, Fold, FoldState
from .rewards import REWARDS
from .runs import RUNS

if TYPE_CHECKING:
    from .engine.views import Views

MICRO = 1_000_000


class LatestOpinion(FoldState, frozen=True, kw_only=True):
    """The newest opinion of one judge on a run; `score` in millionths."""

    judge: str
    passed: bool
    score: int


class JudgedState(FoldState, frozen=True, kw_only=True):
    """A run, and the newest opinion of each judge on it, by name."""

    run: str = ""
    opinions: tuple[LatestOpinion, ...] = ()


@dataclass(frozen=True, slots=True)
class Calibration:
    """One judge compared with the oracle. `opinions` counts all runs it judged; the rest only those also graded."""

    judge: str
    opinions: int
    oracle_passed: int
    oracle_failed: int
    false_passes: int
    false_fails: int

    @property
    def compared_runs(self) -> int:
        """Number of runs that both the judge and the oracle graded."""
        return self.oracle_passed + self.oracle_failed

    @property
    def false_pass_rate(self) -> int | None:
        """Share of the runs failed by the oracle that the judge passed: millionths, rounded down; None without any."""
        return _share(self.false_passes, self.oracle_failed)

    @property
    def false_fail_rate(self) -> int | None:
        """Share of the runs passed by the oracle that the judge failed: millionths, rounded down; None without any."""
        return _share(self.false_fails, self.oracle_passed)

    @property
    def accuracy(self) -> int | None:
        """Share of runs on which judge and oracle agree: millionths, rounded down; None without any."""
        return _share(self.compared_runs - self.false_passes - self.false_fails, self.compared_runs)


def judge_name(model: str, prompt: str) -> str:
    """Name of a judge: a model with a prompt version. Another version is another judge."""
    return f"{model}/{prompt}"


def calibrate_judges(views: Views) -> tuple[Calibration, ...]:
    """Calibration of every judge against the oracle, in order of name."""
    opinions = views.find(JUDGES)
    rewards = views.pick(REWARDS, opinions.keys())
    return calibrations(opinions.values(), {run: reward.passed for run, reward in rewards.items()})


def opinions_of(views: Views, judge: str, runs: Collection[str]) -> dict[str, bool]:
    """A judge's opinion of each of these runs that has one: True if the judge passed it."""
    states = views.pick(JUDGES, runs).values()
    return {each.run: said.passed for each in states for said in each.opinions if said.judge == judge}


def calibrate_on(views: Views, judge: str, environment: str, tasks: Collection[str] | None = None) -> Calibration:
    """Calibration of a judge on the runs of one environment that the oracle graded too, without sealed ones.

    With `tasks`, the ids of a suite, only runs of these tasks count.
    """
    spoken = {key: state for key, state in views.find(JUDGES).items() if any(o.judge == judge for o in state.opinions)}
    runs = views.pick(RUNS, spoken.keys())
    there = {run: state for run, state in runs.items() if state.environment == environment and not state.is_sealed}
    own = {run: spoken[run] for run, state in there.items() if tasks is None or state.template in tasks}
    passed = {run: reward.passed for run, reward in views.pick(REWARDS, own.keys()).items()}
    said = [
        (passed.get(run), each.passed) for run, state in own.items() for each in state.opinions if each.judge == judge
    ]
    return _calibration(judge, said)


def calibrations(states: Iterable[JudgedState], passed: Mapping[str, bool]) -> tuple[Calibration, ...]:
    """Calibration of every judge against the oracle, which graded the runs in `passed`, in order of name."""
    found: dict[str, list[tuple[bool | None, bool]]] = {}
    for state in states:
        for opinion in state.opinions:
            found.setdefault(opinion.judge, []).append((passed.get(state.run), opinion.passed))
    return tuple(_calibration(judge, found[judge]) for judge in sorted(found))


def _calibration(judge: str, said: list[tuple[bool | None, bool]]) -> Calibration:
    return Calibration(
        judge=judge,
        opinions=len(said),
        oracle_passed=sum(oracle is True for oracle, _ in said),
        oracle_failed=sum(oracle is False for oracle, _ in said),
        false_passes=said.count((False, True)),
        false_fails=said.count((True, False)),
    )


def _share(count: int, whole: int) -> int | None:
    return count * MICRO // whole if whole else None


def _fold(state: JudgedState, row: EventRow) -> JudgedState:
    judge = judge_name(row.text("model"), row.text("prompt"))
    said = LatestOpinion(judge=judge, passed=row.flag("passed"), score=row.number("score"))
    others = (opinion for opinion in state.opinions if opinion.judge != judge)
    return replace(
        state, run=row.text("run"), opinions=tuple(sorted((*others, said), key=lambda opinion: opinion.judge))
    )


JUDGES = Fold(
    name="judges",
    version=3,
    reads={"JudgeOpined": ("run", "model", "prompt", "passed", "score")},
    initial=JudgedState(),
    key=lambda row: row.text("run"),
    fold=_fold,
    stream_of=lambda key: f"run/{key}",
)
