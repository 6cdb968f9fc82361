"""Judges: the opinions of each judge on a run beside the oracle's grade, and the calibration computed from them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from msgspec.structs import replace

from .engine.projection import EventRow, Fold, FoldState

MICRO = 1_000_000


class LatestOpinion(FoldState, frozen=True, kw_only=True):
    """The newest opinion of one judge on a run; `score` in millionths."""

    judge: str
    passed: bool
    score: int


class JudgedState(FoldState, frozen=True, kw_only=True):
    """A run: the oracle's grade (None: not graded), and the newest opinion of each judge, by name."""

    run: str = ""
    oracle: bool | None = None
    opinions: tuple[LatestOpinion, ...] = ()

    def proxy_score(self, judge: str) -> int | None:
        """A judge's score in millionths if no oracle graded the run; None otherwise, or without an opinion."""
        said = next((opinion.score for opinion in self.opinions if opinion.judge == judge), None)
        return said if self.oracle is None else None


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


def calibrations(states: Iterable[JudgedState]) -> tuple[Calibration, ...]:
    """Calibration of every judge against the oracle, in order of name."""
    found: dict[str, list[tuple[bool | None, bool]]] = {}
    for state in states:
        for opinion in state.opinions:
            found.setdefault(opinion.judge, []).append((state.oracle, opinion.passed))
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
    run = row.text("run")
    if row.type == "RewardGraded":
        return replace(state, run=run, oracle=row.flag("passed")) if row.text("channel") == "oracle" else state
    judge = judge_name(row.text("model"), row.text("prompt"))
    said = LatestOpinion(judge=judge, passed=row.flag("passed"), score=row.number("score"))
    others = (opinion for opinion in state.opinions if opinion.judge != judge)
    return replace(state, run=run, opinions=tuple(sorted((*others, said), key=lambda opinion: opinion.judge)))


JUDGES = Fold(
    name="judges",
    version=2,
    reads={
        "RewardGraded": ("run", "channel", "passed"),
        "JudgeOpined": ("run", "model", "prompt", "passed", "score"),
    },
    initial=JudgedState(),
    key=lambda row: row.text("run"),
    fold=_fold,
    stream_of=lambda key: f"run/{key}",
)
