"""The costs of tests by room, and the budget of each room."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.costs import BUDGETS_S, ROOM_S, ROOT, main


def costs_file(folder: Path, *costs: tuple[str, float]) -> Path:
    file = folder / "costs.jsonl"
    file.write_text("".join(json.dumps({"test": t, "cpu_s": cpu, "wall_s": 2 * cpu}) + "\n" for t, cpu in costs))
    return file


@pytest.mark.parametrize(("seconds", "status"), [(BUDGETS_S["eventlog"], 0), (BUDGETS_S["eventlog"] + 1, 1)])
def test_a_room_beyond_its_budget_is_named(
    seconds: float, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    file = costs_file(tmp_path, ("tests/unit/test_chain.py::a", 1.0), ("tests/unit/test_chain.py::b", seconds - 1))
    assert main(file) == status
    shown = capsys.readouterr()
    row = f"| `eventlog` | 2 | {seconds:.0f} | {BUDGETS_S['eventlog']:.0f} | {2 * seconds:.0f} |"
    assert row in shown.out.splitlines()
    assert shown.err == ("" if status == 0 else "beyond their budget: eventlog\n")


def test_a_room_without_a_budget_of_its_own_has_that_of_a_new_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    assert [
        main(costs_file(tmp_path, ("tests/unit/test_gate_stats.py::a", cost))) for cost in (ROOM_S, ROOM_S + 1)
    ] == [
        0,
        1,
    ]


def test_budgets_are_of_rooms_that_there_are() -> None:
    assert [room for room in BUDGETS_S if not (ROOT / room).is_dir()] == []
