"""The demo's table and picture, over outcomes that are made up."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.demo_fast.__main__ import page
from benchmarks.demo_fast.picture import curve, draw
from benchmarks.demo_fast.playing import Measured, Outcome
from benchmarks.demo_fast.rows import ROWS, Sizes
from benchmarks.demo_fast.table import cells_of, difference, figures_of, idle_rows, is_drifted
from benchmarks.report import Target, held_against, shown

CURED = {"hints only": {"knowledge"}, "rewrites only": {"policy"}, "allocator": {"knowledge", "policy"}}
TASKS = {"marketplace.k": "knowledge", "marketplace.p": "policy", "helpdesk.c": "control"}


def made(row: str) -> Measured:
    outcomes = tuple(
        Outcome(
            row=row,
            site=task.partition(".")[0],
            task=task,
            cluster=cluster,
            seed=seed,
            is_sealed=seed >= 10_000,
            repetition=0,
            passed=cluster in CURED.get(row, set()),
            score=1_000_000 * (cluster in CURED.get(row, set())),
            cost=1_000,
        )
        for task, cluster in TASKS.items()
        for seed in (9_100, 9_101, *range(10_100, 10_120))
    )
    return Measured(row, "marketplace", outcomes, 5_000 if row in CURED else 0, 10, 0, {})


FOUND = [made(row.name) for row in ROWS]


def test_every_row_has_a_cell_in_every_group_and_one_of_all_tasks() -> None:
    cells = {(cell.group, cell.row): cell for cell in cells_of(FOUND)}
    assert len(cells) == 4 * len(ROWS)
    cell = cells["marketplace knowledge", "hints only"]
    assert (cell.visible, cell.sealed, cell.cost) == ((2, 2), (20, 20), 22_000)
    assert cell.score_a_dollar == 1_000
    assert cell.cells()[2:5] == ("1.00 (0.34 to 1.00)", "1.00 (0.84 to 1.00)", "2 + 20")
    assert cells["helpdesk c", "frozen"].sealed == (0, 20)


def test_the_figures_say_where_a_substrate_cures_and_what_the_allocator_comes_to() -> None:
    figures, targets, spans = figures_of(FOUND)
    assert figures["marketplace policy: best substrate, sealed"] == 1
    assert figures["marketplace policy: allocator less best substrate"] == 0
    assert figures["all tasks: allocator less best single substrate"] == pytest.approx(1 / 3)
    assert set(targets) <= set(figures)
    missed = [name for name, target in targets.items() if not met(target, figures[name], spans.get(name))]
    assert missed == []
    controls = [name for name in figures if name.startswith("helpdesk c: ")]
    assert len(controls) == len(ROWS) - 1
    assert set(controls) == set(spans)


def test_a_page_says_what_was_missed_and_which_rows_changed_nothing() -> None:
    found = [replace(each, outcomes=_lucky(each)) if each.row == "frozen" else each for each in FOUND]
    figures, targets, spans = figures_of(found)
    text = page(found, Sizes(), held_against(figures, targets, spans))
    assert "| marketplace policy: frozen, sealed | 0.25 | ≤ 0.1 | missed |" in text
    assert "| marketplace policy: frozen, sealed, addresses drifted | 0 | ≤ 0.1 | met |" in text
    assert "| marketplace policy: best substrate, sealed | 1 | ≥ 0.95 | met |" in text
    low, high = map(shown, spans["helpdesk c: all less frozen, sealed"])
    assert f"| helpdesk c: all less frozen, sealed | 0 ({low} to {high}) | 0 to 0 | met |" in text
    assert "all tasks: frozen, sealed" not in text
    assert idle_rows(cells_of(FOUND)) == ["exemplars only", "curriculum only", "all"]
    assert "Rows that changed no success, in any cell: none." in text


def _lucky(frozen: Measured) -> tuple[Outcome, ...]:
    """Outcomes of which one task passes wherever its addresses did not drift."""
    return tuple(
        replace(outcome, passed=outcome.cluster == "policy" and not is_drifted(outcome)) for outcome in frozen.outcomes
    )


def test_one_sealed_instance_in_four_of_the_marketplace_has_its_pages_where_the_instructions_say() -> None:
    own = [outcome for outcome in made("frozen").outcomes if outcome.task == "marketplace.k" and outcome.is_sealed]
    assert sum(not is_drifted(outcome) for outcome in own) == len(own) // 4


def met(target: Target, value: float, span: tuple[float, float] | None) -> bool:
    return target.is_met(*((value, value) if span is None else span))


def test_an_interval_of_a_difference_is_around_it_and_wider_the_less_it_may_err() -> None:
    low, high = difference((15, 20), (5, 20), 0.05)
    wider = difference((15, 20), (5, 20), 0.005)
    assert 0 < low < 0.5 < high < 1
    assert wider[0] < low
    assert wider[1] > high
    assert difference((7, 20), (7, 20), 0.05)[0] < 0 < difference((7, 20), (7, 20), 0.05)[1]


def test_seeds_of_an_evaluation_are_new_in_each_repetition_and_never_those_of_learning() -> None:
    sizes = Sizes()
    seeds = [seed for n in range(sizes.repetitions) for seed in (*sizes.visible_seeds(n), *sizes.sealed_seeds(n))]
    assert len(set(seeds)) == len(seeds)
    assert min(seeds) >= 9_100
    assert all(seed < 10_000 or seed >= 10_100 for seed in seeds)


def test_the_picture_begins_with_what_learning_cost(tmp_path: Path) -> None:
    spent, passed = curve(FOUND, "hints only")
    assert (spent[:2], passed[:2]) == ([0, 5_000], [0, 0])
    assert (spent[-1], passed[-1]) == (5_000 + 66_000, 20)
    draw(FOUND, tmp_path / "made.png")
    assert (tmp_path / "made.png").read_bytes().startswith(b"\x89PNG")
