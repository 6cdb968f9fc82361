"""What each test costs: processor seconds of the test, of the children that it waited for, and of its database.

A test may cost 10 processor seconds. One that costs clearly more (`BUSY`) fails, unless it is marked `costly("why")` or
is a long form that only `make endure` runs. `--costs FILE` writes a line of JSON for each test, and the terminal shows
what each folder of tests came to. `python -m tests.costs FILE` shows it by room, as a table in Markdown: a test file
belongs to the highest room that it imports from.
"""

from __future__ import annotations

import ast
import json
import os
import resource
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

ALLOWED_S = 10.0
BUSY = 2.0
"""Room for busy and slower machines, where the same work was seen to take 1.35 times the processor time and more."""
HEAVY = frozenset({"torch", "transformers", "peft", "trl"})
IMPORT_S = 15.0
"""What a test may cost besides that is the first of its process to import one of these: about 10 s (measured)."""
ROOT = Path(__file__).parents[1]
FLOORS = {"eventlog": 0, "migrations": 0, "projections": 1, "agents": 2, "trainer": 2, "gate": 2, "api": 3}
SERVERS: dict[int, float] = {}
"""The postmasters that work for the tests of this process alone, and the processor seconds last seen of each."""
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_KEY = "cost"
_BEGAN = pytest.StashKey[tuple[float, float]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--costs`."""
    parser.addoption("--costs", type=Path, help="write what each test cost to this file, a line of JSON each")


def _processor_seconds() -> float:
    """Processor seconds of this process, of the children that it has waited for, and of `SERVERS`."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in both) + sum(map(_server_seconds, SERVERS))


def _server_seconds(postmaster: int) -> float:
    """Processor seconds of a PostgreSQL: its postmaster, and the backends that have ended."""
    with suppress(OSError):  # it has ended itself
        stat = Path("/proc", str(postmaster), "stat").read_text().rpartition(")")[2].split()
        SERVERS[postmaster] = sum(map(int, stat[11:15])) / _TICKS_PER_S
    return SERVERS[postmaster]


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Fail a test that costs more than it may."""
    before, known = _processor_seconds(), HEAVY & sys.modules.keys()
    yield
    cost = _processor_seconds() - before
    allowed = ALLOWED_S + (IMPORT_S if HEAVY & sys.modules.keys() != known else 0)
    is_thorough = item.config.getoption("hypothesis_profile", None) == "thorough"
    if cost > allowed * BUSY and not (is_thorough or any(map(item.get_closest_marker, ("costly", "endure")))):
        pytest.fail(
            f"this test cost {cost:.1f} processor seconds; {allowed:.0f} are allowed. Make it cheaper, or say why it "
            'is worth it: @pytest.mark.costly("why")',
            pytrace=False,
        )


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    """Record what a test cost with its fixtures. What is set up for a module or a session is charged to its first."""
    before, began = _processor_seconds(), time.monotonic()
    item.stash[_BEGAN] = (before, began)
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Send the cost along with the report of the last phase, across processes too."""
    report = yield
    if report.when == "teardown":
        before, began = item.stash[_BEGAN]
        report.user_properties.append((_KEY, (_processor_seconds() - before, time.monotonic() - began)))
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show what each folder of tests came to, and write `--costs`."""
    costs: dict[str, Any] = {}
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport) and report.when == "teardown":
                costs.update((report.nodeid, cost) for key, cost in report.user_properties if key == _KEY)
    file = terminalreporter.config.getoption("costs")
    if file is not None:
        lines = [json.dumps({"test": test, "cpu_s": cpu, "wall_s": wall}) for test, (cpu, wall) in costs.items()]
        Path(file).write_text("\n".join([*lines, ""]))
    folders: dict[str, list[float]] = defaultdict(list)
    for test, (cpu, _) in costs.items():
        folders[str(Path(test.partition("::")[0]).parent)].append(cpu)
    for folder, each in sorted(folders.items()):
        terminalreporter.write_line(f"{folder}: {len(each)} tests, {sum(each):.0f} processor seconds")


def room_of(file: Path) -> str:
    """The highest room that a test file imports from, by itself or through helpers of tests; ties go by name.

    Within the highest floor, the room that most names are imported from; of `api` and `agents` the room inside.
    """
    names: Counter[str] = Counter()
    for module, number in _imports(file):
        root, *below = module.split(".")
        if root in FLOORS:
            inside = Path(root, *below[:1]) if root in {"api", "agents"} else Path(root)
            names[str(inside if (ROOT / inside).is_dir() else inside.parent)] += number
    if not names:
        return "tests"
    if names.keys() != {"api"}:  # almost every test opens a house
        names.pop("api", None)
    highest = max(FLOORS[name.partition("/")[0]] for name in names)
    top = {name: number for name, number in names.items() if FLOORS[name.partition("/")[0]] == highest}
    return min(top, key=lambda name: (-top[name], name))


def _imports(file: Path, *, with_helpers: bool = True) -> Iterator[tuple[str, int]]:
    """Each module that a file imports from, with how many names; helpers of tests are followed once."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module, len(node.names)
            helper = ROOT / Path(*node.module.split(".")).with_suffix(".py")
            if with_helpers and node.module.startswith("tests.") and node.module != "tests.conftest":
                yield from _imports(helper, with_helpers=False) if helper.exists() else ()


def table_by_room(lines: Iterable[str]) -> str:
    """Costs as a table of rooms, the costliest first."""
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    rooms: dict[str, str] = {}
    for line in lines:
        cost = json.loads(line)
        file = cost["test"].partition("::")[0]
        room = rooms.setdefault(file, room_of(Path(file)))
        found[room].append((cost["cpu_s"], cost["wall_s"]))
    rows = sorted(found.items(), key=lambda item: -sum(cpu for cpu, _ in item[1]))
    total = [cost for each in found.values() for cost in each]
    return "\n".join(
        [
            "| room | tests | processor seconds | wall seconds |",
            "|---|---|---|---|",
            *(_row(f"`{room}`", each) for room, each in rows),
            _row("all", total),
        ]
    )


def _row(name: str, costs: Sequence[tuple[float, float]]) -> str:
    return f"| {name} | {len(costs):,} | {sum(cpu for cpu, _ in costs):,.0f} | {sum(wall for _, wall in costs):,.0f} |"


if __name__ == "__main__":
    sys.stdout.write(table_by_room(Path(sys.argv[1]).read_text().splitlines()) + "\n")
