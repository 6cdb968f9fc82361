"""What names must be: functions are verbs or nouns of their result, a name means one thing, and rooms stay small."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("eventlog", "projections", "agents", "trainer", "gate", "api", "migrations")
IRREGULAR = re.compile(
    "begun|bound|brought|built|caught|chosen|done|drawn|driven|fallen|found|frozen|given|gone|heard|held|hidden|kept|"
    "known|laid|led|left|lent|lost|made|meant|met|paid|said|seen|sent|shown|sold|spent|spoken|stolen|stood|sworn|taken|"
    "taught|thought|thrown|told|understood|withdrawn|withheld|written"
)
NO_PARTICIPLES = re.compile("embed|exceed|feed|need|proceed|seed|shred|speed|bring|ping|ring|sibling|string|thing")
MOST_MODULES = {"api": 12, "projections": 35}
HANDLER = re.compile(r"\.(callback|command|delete|exception_handler|get|post|put)$")
OF_A_SITE = re.compile(r"^agents/envs/sites/\w+/")
MOST_SHARED_NAMES = 20
Function = ast.FunctionDef | ast.AsyncFunctionDef
Definition = Function | ast.ClassDef


def is_participle(name: str) -> bool:
    """True for a single word that ends like a participle, or is an irregular one."""
    word = name.lstrip("_")
    if "_" in word or NO_PARTICIPLES.fullmatch(word):
        return False
    return (IRREGULAR.fullmatch(word) or re.fullmatch(r"[a-z]{2,}(ed|ing)", word)) is not None


def public_definitions(source: str) -> Iterator[Definition]:
    """The public functions and classes of a module."""
    for node in ast.parse(source).body:
        if isinstance(node, Definition) and not node.name.startswith("_"):
            yield node


def functions_of(source: str) -> Iterator[str]:
    """Every function of a module and every method of its classes, private ones too, as `name` or `Class.name`."""
    tree = ast.parse(source)
    yield from (node.name for node in tree.body if isinstance(node, Function))
    for each in ast.walk(tree):
        if isinstance(each, ast.ClassDef):
            yield from (f"{each.name}.{node.name}" for node in each.body if isinstance(node, Function))


def product_files() -> list[Path]:
    """Every module of the product."""
    return [file for room in ROOMS for file in sorted((ROOT / room).rglob("*.py"))]


@cache
def definitions() -> tuple[tuple[str, Definition], ...]:
    """Every public function and class of a module, by file."""
    found = ((file, node) for file in product_files() for node in public_definitions(file.read_text()))
    return tuple((str(file.relative_to(ROOT)), node) for file, node in found)


def is_entry_point(node: Definition) -> bool:
    """True for `main`, for a migration, and for a command or a route, which callers know by its words or its path."""
    decorators = (ast.unparse(getattr(each, "func", each)) for each in node.decorator_list)
    return node.name in {"main", "upgrade"} or any(HANDLER.search(decorator) for decorator in decorators)


def modules_by_name() -> Mapping[str, set[str]]:
    """Each name that callers import, with the modules that define it; a seam of the bundled sites counts as one."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for file, node in definitions():
        if not is_entry_point(node):
            found[node.name].add(OF_A_SITE.sub("agents/envs/sites/*/", file))
    return found


def rooms_of(modules: set[str]) -> list[str]:
    """The room of each of these modules."""
    return [module.partition("/")[0] for module in sorted(modules)]


def test_no_function_and_no_method_is_named_by_a_bare_participle() -> None:
    functions = [
        (str(file.relative_to(ROOT)), name) for file in product_files() for name in functions_of(file.read_text())
    ]
    assert [each for each in functions if is_participle(each[1].rpartition(".")[2])] == []


def test_methods_and_private_functions_are_looked_at() -> None:
    source = """
class Outer:
    def told(self): ...
    class Inner:
        async def _held(self): ...
def _found():
    def inside(): ...
"""
    assert list(functions_of(source)) == ["_found", "Outer.told", "Inner._held"]


def test_no_public_name_stands_twice_in_a_room() -> None:
    twice = {
        name: sorted(modules)
        for name, modules in modules_by_name().items()
        if len(set(rooms_of(modules))) < len(rooms_of(modules))
    }
    assert twice == {}


def test_few_public_names_stand_in_two_rooms() -> None:
    shared = [name for name, modules in modules_by_name().items() if len(set(rooms_of(modules))) > 1]
    assert len(shared) <= MOST_SHARED_NAMES, shared


def test_commands_and_routes_are_told_from_what_callers_import() -> None:
    source = """
@app.command("list")
def list_(): ...
@router.get("/runs")
async def one_run(): ...
@app.callback()
def options(): ...
def main(): ...
@dataclass(frozen=True)
class Run: ...
@cache
def runs(): ...
def _private(): ...
"""
    assert [node.name for node in public_definitions(source) if not is_entry_point(node)] == ["Run", "runs"]


@pytest.mark.parametrize("name", ["told", "held", "drawn", "started", "serving", "_found"])
def test_participles_are_seen(name: str) -> None:
    assert is_participle(name)


@pytest.mark.parametrize("name", ["compute_advantages", "champion_at", "seed", "string", "read", "started_runs"])
def test_verbs_and_nouns_are_not_taken_for_participles(name: str) -> None:
    assert not is_participle(name)


@pytest.mark.parametrize(("room", "most"), MOST_MODULES.items())
def test_the_root_of_a_room_holds_few_modules(room: str, most: int) -> None:
    assert len([file for file in (ROOT / room).glob("*.py") if file.name != "__init__.py"]) <= most
