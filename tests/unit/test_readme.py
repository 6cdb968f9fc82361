"""The README's tree is the code's."""

from __future__ import annotations

from pathlib import Path

from api.settings import Settings

ROOT = Path(__file__).parents[2]
ROOMS = ("eventlog", "projections", "agents", "trainer", "gate", "migrations", "api")


def paths_of_the_tree() -> dict[str, str]:
    """Each path that the README's tree names, with its clause."""
    block = (ROOT / "README.md").read_text().split("## The house")[1].split("```")[1]
    found: dict[str, str] = {}
    folders: list[str] = []
    for line in block.strip().splitlines():
        depth = (len(line) - len(line.lstrip())) // 2
        name, _, clause = line.strip().partition(" ")
        folders = folders[:depth]
        found["/".join([*folders, name.rstrip("/")])] = clause.strip()
        if name.endswith("/"):
            folders.append(name.rstrip("/"))
    return found


def test_every_module_is_in_the_tree_with_a_clause_and_nothing_else_is() -> None:
    tree = paths_of_the_tree()
    modules = {
        str(file.relative_to(ROOT))
        for room in ROOMS
        for file in (ROOT / room).rglob("*.py")
        if file.name != "__init__.py"
    }
    named = {path for path in tree if path.endswith(".py")}
    assert modules == named
    assert [path for path in named if not tree[path]] == []


def test_every_folder_of_the_tree_exists() -> None:
    assert [path for path in paths_of_the_tree() if not (ROOT / path).exists()] == []


def test_every_setting_is_in_the_readme() -> None:
    readme = (ROOT / "README.md").read_text()
    assert [name for name in Settings.model_fields if f"`FLYWHEEL_{name.upper()}`" not in readme] == []
