"""What names must be: functions are verbs or nouns of what they return, never a bare participle; rooms stay small."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("eventlog", "projections", "agents", "trainer", "gate", "api", "migrations")
IRREGULAR = re.compile(
    "begun|bound|brought|built|caught|chosen|done|drawn|driven|fallen|found|frozen|given|gone|heard|held|hidden|kept|"
    "known|laid|led|left|lent|lost|made|meant|met|paid|said|seen|sent|shown|sold|spent|spoken|stolen|stood|sworn|taken|"
    "taught|thought|thrown|told|understood|withdrawn|withheld|written"
)
NO_PARTICIPLES = re.compile("embed|exceed|feed|need|proceed|seed|speed|bring|ping|ring|string|thing")
MOST_MODULES = {"api": 12, "projections": 35}


def is_participle(name: str) -> bool:
    """True for a single word that ends like a participle, or is an irregular one."""
    word = name.lstrip("_")
    if "_" in word or NO_PARTICIPLES.fullmatch(word):
        return False
    return (IRREGULAR.fullmatch(word) or re.fullmatch(r"[a-z]{2,}(ed|ing)", word)) is not None


def functions() -> Iterator[tuple[str, str]]:
    """Every public function of a module, by file and name."""
    for room in ROOMS:
        for file in sorted((ROOT / room).rglob("*.py")):
            for node in ast.parse(file.read_text()).body:
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
                    yield str(file.relative_to(ROOT)), node.name


def test_no_public_function_is_named_by_a_bare_participle() -> None:
    assert [each for each in functions() if is_participle(each[1])] == []


@pytest.mark.parametrize("name", ["told", "held", "drawn", "started", "serving", "_found"])
def test_participles_are_seen(name: str) -> None:
    assert is_participle(name)


@pytest.mark.parametrize("name", ["compute_advantages", "champion_at", "seed", "string", "read", "started_runs"])
def test_verbs_and_nouns_are_not_taken_for_participles(name: str) -> None:
    assert not is_participle(name)


@pytest.mark.parametrize(("room", "most"), MOST_MODULES.items())
def test_the_root_of_a_room_holds_few_modules(room: str, most: int) -> None:
    assert len([file for file in (ROOT / room).glob("*.py") if file.name != "__init__.py"]) <= most
