"""The pages: links lead somewhere, the vocabulary table is what the code does, nothing points outside the folder."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from api.app import create_app
from api.house import House
from api.routes.problems import STATUS
from api.settings import Settings
from docs.reference import MORE, render_settings
from eventlog.events import EVENT_TYPES
from eventlog.signature import Signed, check_signature
from projections import ALL

ROOT = Path(__file__).parents[2]
DESIGN = ROOT / "docs" / "design.md"
REST = ROOT / "docs" / "rest.md"
PAGES = sorted({*ROOT.glob("README.md"), *ROOT.glob("CHANGELOG.md"), *ROOT.glob("docs/**/*.md")})
ELSEWHERE = ("/work/", "../shared", "issue #")
REGISTRIES = (
    "pypi.org",
    "pythonhosted.org",
    "npmjs.org",
    "npmjs.com",
    "docker.io",
    "ghcr.io",
    "quay.io",
    "crates.io",
    "proxy.golang.org",
)
HEADER = ["family", "event", "says", "appended by", "read by"]

_FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_NAME = re.compile(r"`([^`]+)`")


def of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def relative_links(page: Path) -> Iterator[str]:
    for link in _LINK.findall(_FENCE.sub("", page.read_text())):
        target = link.partition("#")[0]
        if target and not re.match(r"[a-z]+:", target):
            yield target


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def vocabulary() -> dict[str, list[str]]:
    """The table of events in the design: event to its cells."""
    lines = DESIGN.read_text().splitlines()
    start = next(number for number, line in enumerate(lines) if cells(line) == HEADER)
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        rows.append(cells(line))
    return {_NAME.findall(row[1])[0]: row for row in rows}


def modules(room: str) -> Iterator[Path]:
    """The modules of a room by its dotted name, or of the nearest room above it that there is."""
    place = ROOT.joinpath(*room.split("."))
    while not place.is_dir() and not place.with_suffix(".py").is_file():
        place = place.parent
    yield from place.rglob("*.py") if place.is_dir() else [place.with_suffix(".py")]


def reserved() -> list[str]:
    section = DESIGN.read_text().partition("### Reserved names")[2].partition("\n## ")[0]
    return _NAME.findall(section)


@pytest.mark.parametrize("page", PAGES, ids=of)
def test_every_relative_link_leads_to_a_file(page: Path) -> None:
    assert [link for link in relative_links(page) if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=of)
def test_a_page_names_nothing_outside_the_repository(page: Path) -> None:
    text = page.read_text().lower()
    assert [word for word in (*ELSEWHERE, *REGISTRIES) if word in text] == []


def test_the_reference_of_settings_is_what_the_model_says() -> None:
    """`make reference` writes it."""
    assert render_settings() in (ROOT / "docs" / "settings.md").read_text()
    assert all(found.description for found in Settings.model_fields.values())
    assert set(MORE) <= set(Settings.model_fields)


def test_the_vocabulary_table_holds_every_event_and_no_other() -> None:
    assert sorted(vocabulary()) == sorted(EVENT_TYPES)


@pytest.mark.parametrize("event", EVENT_TYPES)
def test_a_row_of_the_vocabulary_says_what_the_code_does(event: str) -> None:
    family, _, _, appended_by, read_by = vocabulary()[event]
    assert family == EVENT_TYPES[event].__module__.rpartition(".")[2]
    rooms = _NAME.findall(appended_by)
    assert rooms
    assert [room for room in rooms if not any("Append(" in file.read_text() for file in modules(room))] == []
    assert _NAME.findall(read_by) == sorted(fold.name for fold in ALL if event in fold.reads)


def test_a_reserved_name_is_no_event_yet() -> None:
    names = reserved()
    assert len(names) == len(set(names)) > 0
    assert set(names) & set(EVENT_TYPES) == set()


def test_the_page_on_rest_holds_every_endpoint_and_no_other() -> None:
    paths = create_app(cast("House", None)).openapi()["paths"]
    served = {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods}
    table = {cells(line)[0].strip("`") for line in REST.read_text().splitlines() if re.match(r"\| `(GET|POST) /", line)}
    assert {re.sub(r"{\w+}", "{}", row) for row in table} == {re.sub(r"{\w+}", "{}", row) for row in served}


def test_every_example_in_json_can_be_read() -> None:
    examples = re.findall(r"^```json\n(.*?)^```", REST.read_text(), re.DOTALL | re.MULTILINE)
    assert len(examples) > 5
    assert all(isinstance(json.loads(example), dict) for example in examples)


def layers(beginning: str) -> list[list[str]]:
    """The layers of an import rule in the design, lowest first, from the line that begins so."""
    text = " ".join(DESIGN.read_text().split())
    line = next(rule for rule in re.findall(r"`([^`]*←[^`]*)`", text) if rule.startswith(beginning))
    return [re.findall(r"\w+", layer) for layer in line.split("←")]


def imports(file: Path) -> Iterator[str]:
    """Absolute names of the modules that a file imports."""
    package = file.relative_to(ROOT).parts[:-1]
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            stem = [*package[: len(package) - node.level + 1]] if node.level else []
            yield from (".".join([*stem, *([node.module] if node.module else []), alias.name]) for alias in node.names)


@pytest.mark.parametrize(("beginning", "inside"), [("eventlog", ""), ("envs", "agents.")])
def test_imports_go_down_as_the_design_says(beginning: str, inside: str) -> None:
    rank = {f"{inside}{name}": height for height, layer in enumerate(layers(beginning)) for name in layer}
    wrong = []
    for room, height in rank.items():
        place = ROOT / room.replace(".", "/")
        for file in [place.with_suffix(".py")] if place.with_suffix(".py").exists() else sorted(place.rglob("*.py")):
            reached = {other for name in imports(file) for other in rank if f"{name}.".startswith(f"{other}.")}
            wrong += [f"{of(file)} imports {other}" for other in reached - {room} if rank[other] >= height]
    assert len(rank) > 5
    assert wrong == []


def test_the_table_of_errors_holds_every_status_with_errors_that_have_it() -> None:
    lines = (cells(line) for line in REST.read_text().partition("## Errors")[2].splitlines() if line.startswith("| "))
    table = {int(row[0]): _NAME.findall(row[1]) for row in lines if row[0].isdecimal()}
    described = {
        int(status)
        for methods in create_app(cast("House", None)).openapi()["paths"].values()
        for told in methods.values()
        for status in told["responses"]
        if int(status) >= 400
    }
    assert sorted({*STATUS.values(), *described} - table.keys()) == []
    status_of = {kind.__name__: status for kind, status in STATUS.items()}
    wrong = [
        (name, status) for status, names in table.items() for name in names if status_of.get(name, status) != status
    ]
    assert wrong == []
    assert sorted(status_of.keys() - {name for names in table.values() for name in names}) == []


def test_the_signed_head_that_is_shown_was_signed() -> None:
    (shown,) = re.findall(r"^\{\n.*?^\}", (ROOT / "docs" / "integrity.md").read_text(), re.DOTALL | re.MULTILINE)
    signed = Signed.model_validate_json(shown)
    check_signature(signed, Ed25519PublicKey.from_public_bytes(bytes.fromhex(signed.public_key)))


def test_every_page_that_the_code_sends_to_is_there() -> None:
    rooms = ("agents", "api", "eventlog", "gate", "projections", "trainer", "migrations")
    files = [file for room in rooms for file in sorted((ROOT / room).rglob("*.py"))]
    named = {(of(file), page) for file in files for page in re.findall(r"docs/[\w/-]+\.\w+", file.read_text())}
    assert named
    assert sorted((file, page) for file, page in named if not (ROOT / page).exists()) == []
