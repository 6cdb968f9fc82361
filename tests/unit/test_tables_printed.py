"""Tables of commands without a terminal: one line a row, as rich would print them on endless paper."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.table import Table
from rich.text import Text

from api.cli import output

CELLS = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z", "M")), max_size=12)


def printed(columns: list[str], rows: list[list[str]]) -> list[str]:
    """Lines of a table as a command prints them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdout", paper := io.StringIO())
        output.table(columns, rows, title="a title")
    return [line.rstrip() for line in paper.getvalue().splitlines()]


@given(st.lists(st.lists(CELLS, min_size=3, max_size=3), min_size=1, max_size=6))
def test_a_piped_table_looks_as_rich_prints_it_without_a_limit_of_its_width(rows: list[list[str]]) -> None:
    columns = ["run", "status", "a third column"]
    grid = Table(title="a title", title_justify="left", show_edge=False, pad_edge=False)
    for column in columns:
        grid.add_column(column)
    for row in rows:
        grid.add_row(*map(Text, row))
    console = Console(width=2_000, file=io.StringIO(), highlight=False)
    console.print(grid)
    assert isinstance(console.file, io.StringIO)
    assert printed(columns, rows) == [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_output_that_is_not_utf_8_gets_lines_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    paper = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(paper, "latin-1", write_through=True))
    output.table(["run", "said"], [["r1", "é日"]])
    assert paper.getvalue().decode("latin-1").splitlines() == ["run | said", "----+-----", "r1  | é? "]


def test_a_row_stays_one_line_however_long_and_whatever_its_cells_hold() -> None:
    lines = printed(["name", "said"], [["x" * 900, "two\nlines"], ["日本", "wide"]])
    assert len(lines) == 5
    assert lines[3] == f"{'x' * 900} │ two lines"
    assert lines[4] == f"日本{' ' * 896} │ wide"
