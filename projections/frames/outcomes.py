"""Frames of outcomes: results of the runs of a sweep, and of steps. Withdrawals do not affect them.

An event counts only in its run's stream, as in the folds keyed by run; a run's RunStarted is the first event there.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from .frame import Events, Frame

_OWN = pl.col("stream") == pl.concat_str(pl.lit("run/"), pl.col("run"))
_FIRST = _OWN & (pl.col("version") == 1)
_TEXT, _WHOLE, _FLAG = pl.String(), pl.Int64(), pl.Boolean()

_OUTCOMES = {
    "run": _TEXT,
    "sweep": _TEXT,
    "template": _TEXT,
    "is_treated": _FLAG,
    "steps": _WHOLE,
    "is_missing": _FLAG,
    "graded": _WHOLE,
    "score": _WHOLE,
    "passed": _FLAG,
    "has_value": _FLAG,
    "value": _WHOLE,
    "has_cost": _FLAG,
    "cost": _WHOLE,
}


def _outcomes(events: Events) -> pl.LazyFrame:
    """The outcome of each run in these events; `graded` is the position of the newest grade."""
    started = events["RunStarted"].filter(_FIRST)
    steps = events["StepTaken"].filter(_OWN).group_by("run").agg(steps=pl.len().cast(pl.Int64))
    missing = events["RunMissing"].filter(_OWN).select("run", is_missing=pl.lit(value=True))
    grades = events["RewardGraded"].filter(_OWN)
    return pl.concat(
        [
            pl.LazyFrame(schema=_OUTCOMES),
            started.select(
                "run",
                sweep=pl.col("spec.sweep"),
                template=pl.col("spec.template"),
                is_treated=pl.col("spec.candidate").is_not_null(),
            ),
            steps,
            missing,
            grades.select(
                "run",
                "score",
                "passed",
                graded=pl.col("position"),
                has_value=pl.col("value").is_not_null(),
                value=pl.col("value").fill_null(0),
                has_cost=pl.col("cost").is_not_null(),
                cost=pl.col("cost").fill_null(0),
            ),
        ],
        how="diagonal",
    )


_OF_START = ("sweep", "template", "is_treated")
_OF_GRADE = ("graded", "score", "passed", "has_value", "value", "has_cost", "cost")


def _merge_outcomes(parts: pl.LazyFrame) -> pl.LazyFrame:
    return (
        parts.sort("graded", nulls_last=False)
        .group_by("run")
        .agg(
            *(pl.col(name).drop_nulls().first() for name in _OF_START),
            *(pl.col(name).last() for name in _OF_GRADE),
            steps=pl.col("steps").sum(),
            is_missing=pl.col("is_missing").any(),
        )
    )


def _read_outcomes(part: pl.LazyFrame) -> pl.LazyFrame:
    return (
        part.group_by("sweep", "template", "is_treated")
        .agg(
            runs=pl.len().cast(pl.Int64),
            graded=pl.col("graded").count().cast(pl.Int64),
            passed=pl.col("passed").sum().cast(pl.Int64),
            missing=pl.col("is_missing").sum().cast(pl.Int64),
            steps=pl.col("steps").sum(),
            score=pl.col("score").sum(),
            valued=pl.col("has_value").sum().cast(pl.Int64),
            value=pl.col("value").sum(),
            priced=pl.col("has_cost").sum().cast(pl.Int64),
            cost=pl.col("cost").sum(),
        )
        .sort("sweep", "template", "is_treated")
    )


Cell = tuple[str | None, str | None, bool | None]
"""The key of a row of outcomes: sweep, template, and whether runs carried a candidate; None means unknown."""


def select_outcomes(
    rows: pl.LazyFrame, *, sweep: str | None = None, template: str | None = None, after: Cell | None = None
) -> pl.LazyFrame:
    """Rows filtered by sweep and template, and after a cell in their order: of outcomes, or of their part."""
    for name, wanted in (("sweep", sweep), ("template", template)):
        rows = rows if wanted is None else rows.filter(pl.col(name) == wanted)
    return rows if after is None else rows.filter(_sorts_after(_OF_START, after))


def _sorts_after(names: Sequence[str], cell: Sequence[str | bool | None]) -> pl.Expr:
    """True for rows whose columns sort after a cell; unknown values come first."""
    column, value = pl.col(names[0]), cell[0]
    later = column.is_not_null() if value is None else (column > value).fill_null(value=False)
    return later if len(names) == 1 else later | (column.eq_missing(value) & _sorts_after(names[1:], cell[1:]))


OUTCOMES = Frame(
    name="outcomes",
    version=1,
    reads={
        "RunStarted": {"run": _TEXT, "spec.sweep": _TEXT, "spec.template": _TEXT, "spec.candidate": _TEXT},
        "StepTaken": {"run": _TEXT},
        "RunMissing": {"run": _TEXT},
        "RewardGraded": {"run": _TEXT, "score": _WHOLE, "passed": _FLAG, "value": _WHOLE, "cost": _WHOLE},
    },
    part=_OUTCOMES,
    frame=_outcomes,
    merge=_merge_outcomes,
    read=_read_outcomes,
    key="run",
)

_STEPS = {
    "run": _TEXT,
    "environment": _TEXT,
    "template": _TEXT,
    "index": _WHOLE,
    "outcome": _TEXT,
    "steps": _WHOLE,
}
_STEP_OF = ("environment", "template", "index", "outcome")


def _steps(events: Events) -> pl.LazyFrame:
    """Rows that name a run's template (no index), and rows that count its steps.

    Merging also makes rows without a run: counts whose template is known.
    """
    names = events["RunStarted"].filter(_FIRST)
    taken = events["StepTaken"].filter(_OWN).group_by("run", "index", "outcome").agg(steps=pl.len().cast(pl.Int64))
    named = names.select("run", environment=pl.col("task_spec.environment"), template=pl.col("spec.template"))
    return pl.concat([pl.LazyFrame(schema=_STEPS), named, taken], how="diagonal")


def _merge_steps(parts: pl.LazyFrame) -> pl.LazyFrame:
    names = parts.filter(pl.col("run").is_not_null() & pl.col("index").is_null())
    of_runs = parts.filter(pl.col("run").is_not_null() & pl.col("index").is_not_null())
    joined = of_runs.select("run", "index", "outcome", "steps").join(
        names.select("run", "environment", "template"), on="run", how="left"
    )
    found = pl.col("template").is_not_null()
    counted = pl.concat(
        [
            joined.with_columns(run=pl.when(found).then(None).otherwise(pl.col("run"))),
            parts.filter(pl.col("run").is_null()),
        ],
        how="diagonal",
    )
    return pl.concat([names, counted.group_by("run", *_STEP_OF).agg(pl.col("steps").sum())], how="diagonal")


def _read_steps(part: pl.LazyFrame) -> pl.LazyFrame:
    counted = part.filter(pl.col("index").is_not_null())
    return counted.group_by(_STEP_OF).agg(pl.col("steps").sum()).sort(_STEP_OF)


STEP_OUTCOMES = Frame(
    name="step_outcomes",
    version=1,
    reads={
        "RunStarted": {"run": _TEXT, "spec.template": _TEXT, "task_spec.environment": _TEXT},
        "StepTaken": {"run": _TEXT, "index": _WHOLE, "outcome": _TEXT},
    },
    part=_STEPS,
    frame=_steps,
    merge=_merge_steps,
    read=_read_steps,
)

FRAMES = (OUTCOMES, STEP_OUTCOMES)
