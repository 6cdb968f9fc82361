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
    ("base", "cured", "statuses", "treated"),
    [(0, 1_000_000, {"promoted": 3}, 30), (1_000_000, 1_000_000, {"retired": 3}, 150)],
)
def test_planted_candidates_come_to_what_the_rule_alone_says(
    empty_house: House, kind: Kind, base: int, cured: int, statuses: dict[str, int], treated: int
) -> None:
    found = swept(empty_house, Cell(base, cured, candidates=3, seed=1, kind=kind))
    assert (found.statuses, found.treated, found.runs) == (statuses, treated, 4 * treated)
    alone = simulated(PairedRule(), base / 1_000_000, cured / 1_000_000, 3, 1)
    assert (alone.adopted, alone.trials) == (statuses.get("promoted", 0), treated)
    states = empty_house.views().find(FOLDS[kind]).values()
    assert {state.treated.k for state in states} == {treated // 3}
