"""Planted candidates are swept, credited and folded until the rule decides on them, as its simulation says."""

from __future__ import annotations

import pytest

from api.house import House
from benchmarks.fast.coin import Kind
from benchmarks.fast.planted import Cell, swept
from benchmarks.fast.rule import simulated
from eventlog.events import PairedRule
from projections.memories import FOLDS


@pytest.mark.parametrize("kind", ["rewrite", "hint"])
@pytest.mark.parametrize(
    ("candidates", "base", "cured", "status", "trials", "swept_trials"),
    [
        (3, 0, 1_000_000, "promoted", 5, 10),
        (3, 1_000_000, 1_000_000, "retired", 20, 20),
    ],
)
def test_planted_candidates_come_to_what_the_rule_alone_says(
    empty_house: House, kind: Kind, candidates: int, base: int, cured: int, status: str, trials: int, swept_trials: int
) -> None:
    found = swept(empty_house, Cell(base, cured, candidates=candidates, seed=1, kind=kind))
    treated = candidates * swept_trials
    assert (found.statuses, found.treated, found.runs) == ({status: candidates}, treated, 4 * treated)
    alone = simulated(PairedRule.current(), base / 1_000_000, cured / 1_000_000, candidates, 1)
    assert (alone.adopted, alone.trials) == (candidates * (status == "promoted"), candidates * trials)
    states = empty_house.views().find(FOLDS[kind]).values()
    assert {state.treated.k for state in states} == {trials}
