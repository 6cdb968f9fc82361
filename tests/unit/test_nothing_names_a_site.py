"""Nothing outside a site's own folder knows a site: a bundled one comes in through the door that a stranger uses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.suites.bundled import bundled_suites

ROOT = Path(__file__).parents[2]
ROOMS = ("agents", "projections", "gate", "trainer", "api", "eventlog")
HOMES = ("agents/envs/sites", "agents/envs/miniwob", "agents/executors/miniwob")
STORED = {"projections/runs.py": "miniwob-script"}
"""Names of executors that stand in events, by the file that has to know them."""


def names() -> frozenset[str]:
    """The names of the bundled environments and of their tasks."""
    suites = bundled_suites().values()
    return frozenset({suite.environment for suite in suites} | {task.id for suite in suites for task in suite.tasks})


def namings(text: str) -> Iterator[str]:
    """The bundled environments and tasks that a text names, in a word or a part of one."""
    yield from re.findall("|".join(sorted(map(re.escape, names()), key=len, reverse=True)), text, re.IGNORECASE)


def foreign_files() -> list[Path]:
    """Every module outside the folders of the bundled environments."""
    found = [file for room in ROOMS for file in sorted((ROOT / room).rglob("*.py"))]
    return [file for file in found if not any(file.is_relative_to(ROOT / home) for home in HOMES)]


def test_no_module_outside_their_folders_names_a_bundled_site_or_task() -> None:
    files = foreign_files()
    assert len(files) > 400
    found = {}
    for file in files:
        of = str(file.relative_to(ROOT))
        if named := [*namings(file.read_text("utf-8").replace(STORED.get(of, "\0"), ""))]:
            found[of] = named
    assert found == {}


@pytest.mark.parametrize("text", ['if site == "marketplace":', "HELPDESK", "import_miniwob", "helpdesk.macro_reply"])
def test_a_name_is_seen_wherever_it_stands(text: str) -> None:
    assert [*namings(text)]


def test_what_is_no_name_is_not_taken_for_one() -> None:
    assert [*namings("a market place, a help desk")] == []
