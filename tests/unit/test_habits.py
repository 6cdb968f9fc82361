"""What the tree keeps to: small files and functions, one reader of the environment, and few errors swallowed."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.unit.test_names import ROOT, Function, product_files

MOST_LINES = 299
MOST_BODY = 40
READERS = {
    "api/settings.py": "the settings of every command and server",
    "agents/envs/launch.py": "sets the variables of a site's own command, whose process this then is",
    "agents/executors/outside/task.py": "runs in an agent's process, where a variable of the executor names its task",
    "trainer/rank.py": "sets what Accelerate and OpenMP read in the process of a rank",
}
"""The modules that touch the environment's variables, and why each may."""
MOST_SWALLOWED = 5


def body_lines(node: Function) -> int:
    """Lines of a function without its signature and its docstring."""
    is_documented = ast.get_docstring(node) is not None
    body = node.body[1:] if is_documented else node.body
    return (node.end_lineno or 0) - body[0].lineno + 1 if body else 0


def long_functions(source: str) -> Iterator[tuple[str, int]]:
    """The functions whose body is longer than allowed."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, Function) and (lines := body_lines(node)) > MOST_BODY:
            yield node.name, lines


def touches_environment(source: str) -> bool:
    """True if a module reads or sets variables of the environment."""
    if "env" not in source:  # most of the time of these tests goes into parsing
        return False
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr in {"environ", "environb", "getenv", "getenvb", "putenv"}:
            return True
        if isinstance(node, ast.ImportFrom) and node.module == "os":
            return any("env" in alias.name for alias in node.names)
    return False


def swallowed(source: str) -> Iterator[int]:
    """Lines of the handlers of any error at all that let none go on."""
    if "Exception" not in source and "except:" not in source:
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ExceptHandler) and _is_broad(node.type):
            raises = any(isinstance(each, ast.Raise) for part in node.body for each in ast.walk(part))
            if not raises:
                yield node.lineno
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "suppress":
            yield from (node.lineno for each in node.args if _is_broad(each))


def _is_broad(kind: ast.expr | None) -> bool:
    parts = kind.elts if isinstance(kind, ast.Tuple) else [kind]
    return any(each is None or ast.unparse(each) in {"Exception", "BaseException"} for each in parts)


def test_files_are_short() -> None:
    lines = {str(file.relative_to(ROOT)): len(file.read_text().splitlines()) for file in product_files()}
    assert {file: count for file, count in lines.items() if count > MOST_LINES} == {}


def test_functions_are_short() -> None:
    found = {
        (str(file.relative_to(ROOT)), *each) for file in product_files() for each in long_functions(file.read_text())
    }
    assert found == set()


def test_the_environment_is_read_in_one_place() -> None:
    files = (file for file in product_files() if touches_environment(file.read_text()))
    assert {str(file.relative_to(ROOT)) for file in files} == READERS.keys()


def test_few_errors_of_any_kind_are_swallowed() -> None:
    found = [(str(file.relative_to(ROOT)), line) for file in product_files() for line in swallowed(file.read_text())]
    assert len(found) <= MOST_SWALLOWED, found


def test_a_long_body_is_seen_and_its_signature_and_docstring_are_not_counted() -> None:
    statements = "\n".join(f"    x{number} = {number}" for number in range(MOST_BODY))
    short = f'def short(\n    a,\n    b,\n):\n    """Says\n\n    more.\n    """\n{statements}\n'
    assert list(long_functions(short)) == []
    assert list(long_functions(f"{short}    x = 1\n")) == [("short", MOST_BODY + 1)]


@pytest.mark.parametrize(
    ("source", "is_touched"),
    [
        ("import os\nos.environ['A']", True),
        ("from os import environ", True),
        ("import os\nos.getenv('A')", True),
        ("WORDS = 'os.environ'", False),
        ("import os\nos.replace('a', 'b')", False),
    ],
)
def test_readers_of_the_environment_are_seen(source: str, *, is_touched: bool) -> None:
    assert touches_environment(source) == is_touched


@pytest.mark.parametrize(
    ("handler", "lines"),
    [
        ("except Exception:\n    pass", [3]),
        ("except:\n    pass", [3]),
        ("except (ValueError, BaseException) as error:\n    print(error)", [3]),
        ("except Exception:\n    raise", []),
        ("except Exception as error:\n    if error.args:\n        raise", []),
        ("except ValueError:\n    pass", []),
    ],
)
def test_swallowed_errors_are_seen(handler: str, lines: list[int]) -> None:
    assert list(swallowed(f"try:\n    work()\n{handler}\n")) == lines


def test_suppressed_errors_are_seen() -> None:
    assert list(swallowed("with suppress(OSError), contextlib.suppress(Exception):\n    work()")) == [1]
