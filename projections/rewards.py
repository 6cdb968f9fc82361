"""Rewards: the newest grade of each run. An ungraded run has no row, which is not a reward of zero."""

from __future__ import annotations

from .engine.projection import EventRow, Fold, FoldState


class VerifierGrade(FoldState, frozen=True, kw_only=True):
    """The newest grade of a run by one verifier version, in micro-units; `since` is its position."""

    version: str
    since: int
    score: int
    passed: bool
    value: int | None
    shaped: int | None


class RewardState(FoldState, frozen=True, kw_only=True):
    """The grade in force, in micro-units; `cost`, `value` and `shaped` are None if unknown.

    The newest grade by position is in force, whatever the version of its verifier. `others` holds the newest grade of
    every other version, in order of position. `shaping` is the version of the formula behind `shaped` (None: not
    computed). `steps` is what the steps earned by the site's record, beside the score and never in it (None: no step
    was checked by the record).
    """

    run: str = ""
    group: str = ""
    channel: str = ""
    version: str = ""
    since: int = 0
    score: int = 0
    passed: bool = False
    prices: int = 0
    cost: int | None = None
    value: int | None = None
    process: int | None = None
    progress: int | None = None
    shaping: str | None = None
    shaped: int | None = None
    steps: int | None = None
    others: tuple[VerifierGrade, ...] = ()


def _others(state: RewardState, version: str) -> tuple[VerifierGrade, ...]:
    """The newest earlier grade of every version other than `version`."""
    if not state.run:
        return ()
    said = VerifierGrade(
        version=state.version,
        since=state.since,
        score=state.score,
        passed=state.passed,
        value=state.value,
        shaped=state.shaped,
    )
    return tuple(grade for grade in (*state.others, said) if grade.version != version)


def _fold(state: RewardState, row: EventRow) -> RewardState:
    version = row.text("version")
    return RewardState(
        run=row.text("run"),
        group=row.text("group"),
        channel=row.text("channel"),
        version=version,
        since=row.position,
        score=row.number("score"),
        passed=row.flag("passed"),
        prices=row.number("prices"),
        cost=row.maybe_number("cost"),
        value=row.maybe_number("value"),
        process=row.maybe_number("terms.process"),
        progress=row.maybe_number("terms.progress"),
        shaping=row.maybe_text("shaping"),
        shaped=row.maybe_number("shaped"),
        steps=row.maybe_number("terms.steps"),
        others=_others(state, version),
    )


_OF_GRADE = ("run", "group", "channel", "version", "score", "passed", "prices", "cost", "value")
_OF_SHAPE = ("terms.process", "terms.progress", "terms.steps", "shaping", "shaped")

REWARDS = Fold(
    name="rewards",
    version=4,
    reads={"RewardGraded": (*_OF_GRADE, *_OF_SHAPE)},
    initial=RewardState(),
    key=lambda row: row.text("run"),
    fold=_fold,
    stream_of=lambda key: f"run/{key}",
)
