"""Commands and REST show one listing: what a query marks beside it is all that differs."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from fastapi.testclient import TestClient

from .test_cli import Flywheel, flywheel

pytestmark = pytest.mark.reads

__all__ = ["flywheel"]

LISTS = [
    ("rewrites", "rewrites", "rewrites"),
    ("gate", "verdicts", "verdicts"),
    ("benchmark", "benchmarks", "benchmarks"),
    ("dataset", "datasets", "datasets"),
    ("checkpoint", "checkpoints", "checkpoints"),
    ("hints", "hints", "hints"),
]
"""The command that lists, the path, and the key of the rows in the answer."""


@pytest.mark.parametrize(("group", "path", "key"), LISTS)
def test_a_command_lists_the_rows_that_rest_answers_with_marks_of_its_own(
    group: str, path: str, key: str, client: TestClient, flywheel: Flywheel
) -> None:
    rows: list[dict[str, Any]] = client.get(f"/v1/{path}").json()[key]
    code, out, _ = flywheel(group, "list", "--json")
    printed: list[dict[str, Any]] = json.loads(out)
    assert code == 0
    assert [{name: row[name] for name in own} for row, own in zip(printed, rows, strict=True)] == rows


def test_a_ledger_is_the_same_on_the_command_line_and_over_rest(client: TestClient, flywheel: Flywheel) -> None:
    (benchmark,) = client.get("/v1/benchmarks").json()["benchmarks"]
    answer = client.get(f"/v1/benchmarks/{benchmark['benchmark']}/ledger").json()
    assert json.loads(flywheel("gate", "ledger", "--json")[1]) == [answer["ledger"]]


@pytest.mark.parametrize(
    ("words", "path"),
    [
        (("rewrites", "show", "x"), "rewrites/x"),
        (("recipes", "show", "x"), "recipes/x"),
        (("substrates", "show", "x"), "substrates/x"),
        (("gate", "explain", "x"), "verdicts/x"),
        (("gate", "ledger", "--benchmark", "x"), "benchmarks/x/ledger"),
        (("dataset", "show", "a" * 64), f"datasets/{'a' * 64}"),
        (("checkpoint", "show", "a" * 64), f"checkpoints/{'a' * 64}"),
    ],
)
def test_what_is_not_there_is_told_alike_with_one_way_out_for_both(
    words: tuple[str, ...], path: str, client: TestClient, flywheel: Flywheel
) -> None:
    message = client.get(f"/v1/{path}").json()["error"]["message"]
    code, _, err = flywheel(*words)
    assert (code, err.removeprefix("flywheel: ").strip()) == (1, message)
    assert re.search(r"`flywheel \w+ list` or GET /v1/\w+", message)
