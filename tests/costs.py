"""What each test costs: processor seconds of the test, of the children that it waited for, and of its database.

A test may cost 10 processor seconds. One that costs more than 20 fails, which leaves room for busy and slower machines,
unless it is marked `costly("why")` or is a long form that only `make endure` runs. The first test of a process that
imports the libraries of training may cost 30 more. `--costs FILE` writes a line of JSON for each test, and the terminal
shows the sum of each folder of tests. `python -m tests.costs FILE` prints a table in Markdown of each room beside its
budget, and exits with 1 if a room is beyond it: a test file belongs to the highest room that it imports from.
"""

from __future__ import annotations

import ast
import json
import os
import resource
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

ALLOWED_S = 10.0
FAILS_S = 20.0
"""Twice what is allowed: on busy and slower machines the same work was seen to take 1.35 times the time and more."""
HEAVY = frozenset({"torch", "transformers", "peft", "trl"})
IMPORT_S = 30.0
"""Seconds more for the test of a process that imports one of these first: about 10 s (measured), and 20 when busy."""
ROOM_S = 90.0
"""Budget of a room in processor seconds, which a new room has to keep."""
BUDGETS_S = {
    "projections": 330.0,
    "api/cli": 250.0,
    "api/sweeps": 240.0,
    "agents/envs": 160.0,
    "eventlog": 125.0,
    "api/datasets": 110.0,
}
"""Budgets of the rooms that cost more when budgets were set: a quarter more than was measured then."""
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
    most = FAILS_S + (IMPORT_S if HEAVY & sys.modules.keys() != known else 0)
    is_thorough = item.config.getoption("hypothesis_profile", None) == "thorough"
    if cost > most and not (is_thorough or any(map(item.get_closest_marker, ("costly", "endure")))):
        pytest.fail(
            f"this test cost {cost:.1f} processor seconds: {ALLOWED_S:.0f} are allowed, and more than {most:.0f} fail. "
            'Make it cheaper, or say why it is worth it: @pytest.mark.costly("why")',
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


def costs_by_room(lines: Iterable[str]) -> dict[str, list[tuple[float, float]]]:
    """Processor and wall seconds of each test, by room, the costliest room first."""
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    rooms: dict[str, str] = {}
    for line in lines:
        cost = json.loads(line)
        file = cost["test"].partition("::")[0]
        room = rooms.setdefault(file, room_of(Path(file)))
        found[room].append((cost["cpu_s"], cost["wall_s"]))
    return dict(sorted(found.items(), key=lambda item: -_processor_sum(item[1])))


def rooms_beyond(rooms: Mapping[str, Sequence[tuple[float, float]]]) -> list[str]:
    """The rooms that cost more than their budget."""
    return [room for room, costs in rooms.items() if _processor_sum(costs) > BUDGETS_S.get(room, ROOM_S)]


def table_of_rooms(rooms: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """Costs and budget of each room as a table."""
    total = [cost for each in rooms.values() for cost in each]
    return "\n".join(
        [
            "| room | tests | processor seconds | budget | wall seconds |",
            "|---|---|---|---|---|",
            *(_row(f"`{room}`", each, f"{BUDGETS_S.get(room, ROOM_S):.0f}") for room, each in rooms.items()),
            _row("all", total, ""),
        ]
    )


def _processor_sum(costs: Iterable[tuple[float, float]]) -> float:
    return sum(cpu for cpu, _ in costs)


def _row(name: str, costs: Sequence[tuple[float, float]], budget: str) -> str:
    wall = sum(each for _, each in costs)
    return f"| {name} | {len(costs):,} | {_processor_sum(costs):,.0f} | {budget} | {wall:,.0f} |"


def main(file: Path) -> int:
    """Print the table of a file of costs. The exit status is 1 if a room is beyond its budget."""
    rooms = costs_by_room(file.read_text().splitlines())
    sys.stdout.write(table_of_rooms(rooms) + "\n")
    beyond = rooms_beyond(rooms)
    if beyond:
        sys.stderr.write(f"beyond their budget: {', '.join(beyond)}\n")
    return 1 if beyond else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
