"""The sandbox really runs: what tools may do in it, and that no tool gets out of it."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from agents.executors.delegation import sandbox
from agents.executors.delegation.sandbox import (
    NoSandbox,
    ProcessSandbox,
    bubblewrap,
    choose_sandbox,
    interpreter,
    namespaces,
)
from benchmarks.delegation.hostile import canary, count_decisions, count_ends, hostile_tool

SUM = "def handler(*, items):\n    return {'sum': sum(items)}\n"


@pytest.fixture(params=["bubblewrap", "namespaces"])
def box(request: pytest.FixtureRequest) -> ProcessSandbox:
    """Each sandbox that works on this machine."""
    found = bubblewrap() if request.param == "bubblewrap" else namespaces()
    if found is None or found.call(SUM, {"items": []}, timeout_ms=8_000, memory_mb=256).value is None:
        pytest.skip(f"{request.param} cannot run here")
    return found


def call(box: ProcessSandbox, line: str, timeout_ms: int = 3_000, memory_mb: int = 256, **arguments: Any) -> Any:
    code = f"def handler(**kwargs):\n    {line}\n"
    found = box.call(code, arguments, timeout_ms=timeout_ms, memory_mb=memory_mb)
    return found.error if found.value is None else found.value


def test_a_tool_computes_with_the_standard_library(box: ProcessSandbox) -> None:
    assert box.call(SUM, {"items": [1, 2, 39]}, timeout_ms=3_000, memory_mb=256).value == {"sum": 42}
    assert call(box, "import json, re, math, statistics; return {'x': json.dumps(kwargs)}", a="ü") == {
        "x": '{"a": "\\u00fc"}'
    }
    assert call(box, "print('noise'); return {'x': 1}") == {"x": 1}
    assert box.call("async def handler(**kwargs):\n    return {'x': 1}\n", {}, timeout_ms=3_000, memory_mb=256).value


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("return 7", "expected a dict"),
        ("return {'x': float('nan')}", "ValueError"),
        ("return {'x': object()}", "TypeError"),
        ("raise KeyError('y')", "KeyError: 'y'"),
        ("import os; os._exit(0)", "without a result"),
        ("return {'x': 'y' * 10**6}", "more than 262144 bytes"),
        ("return {'x': 'y' * 10**10}", "MemoryError"),
        ("import os; return {'pid': os.fork()}", "PermissionError"),
        ("import socket; return {'s': str(socket.socket())}", "PermissionError"),
        ("return {'x': open('/tmp/flywheel-escape', 'w').write('y')}", "Error"),
        ("import subprocess; return {'x': str(subprocess.run(['id']))}", "PermissionError"),
        ("f = lambda: f(); return f()", "RecursionError"),
    ],
)
def test_what_a_tool_may_not_do_is_an_error_in_its_answer(box: ProcessSandbox, line: str, said: str) -> None:
    assert said in call(box, line)


def test_a_tool_that_does_not_end_is_ended_within_its_time(box: ProcessSandbox) -> None:
    began = time.monotonic()
    assert "did not end" in call(box, "import time; time.sleep(60)", timeout_ms=100)
    assert time.monotonic() - began < 10


def test_a_tool_sees_no_environment_no_host_and_no_other_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLYWHEEL_MODEL_KEY", "secret")
    box = bubblewrap()
    if box is None or choose_sandbox().kind != "bubblewrap":
        pytest.skip("bubblewrap cannot run here")
    seen = call(box, "import os; return {'env': dict(os.environ), 'root': os.listdir('/'), 'uid': os.getuid()}")
    assert "secret" not in str(seen)
    assert seen["uid"] == 65534
    assert not {"etc", "proc", "home", "tmp", "var", "work"}.intersection(seen["root"])


def descendants(pid: int) -> dict[int, str]:
    """The processes below one, each with the time it started, which tells it from a later one of its number."""
    parents, found, waiting = dict[int, tuple[int, str]](), dict[int, str](), [pid]
    for folder in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            facts = (folder / "stat").read_text().rpartition(")")[2].split()
            parents[int(folder.name)] = int(facts[1]), facts[19]
    while waiting:
        parent = waiting.pop()
        below = {each: began for each, (above, began) in parents.items() if above == parent and each not in found}
        found |= below
        waiting += below
    return found


def has_ended(pid: int, began: str) -> bool:
    with suppress(OSError):
        facts = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return facts[0] == "Z" or facts[19] != began
    return True


def test_a_tool_does_not_outlive_a_kill_of_the_process_that_called_it(box: ProcessSandbox) -> None:
    asks = (
        "from agents.executors.delegation.sandbox import ProcessSandbox\n"
        f"box = ProcessSandbox({box.kind!r}, {box.fence!r}, {box.box!r})\n"
        "code = 'import time\\ndef handler(**kwargs):\\n    time.sleep(300)\\n    return {}\\n'\n"
        "box.call(code, {}, timeout_ms=300_000, memory_mb=256)\n"
    )
    with subprocess.Popen([sys.executable, "-c", asks]) as caller:
        deadline, seen = time.monotonic() + 30, dict[int, str]()
        while not any(line_of(each).startswith(interpreter()) for each in seen) and time.monotonic() < deadline:
            time.sleep(0.05)
            seen = descendants(caller.pid)
        caller.kill()
    assert len(seen) > 1
    while not all(has_ended(*each) for each in seen.items()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert [each for each in seen.items() if not has_ended(*each)] == []


def line_of(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text()
    return ""


def test_without_bubblewrap_tools_are_refused_unless_an_operator_opts_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "bubblewrap", lambda: None)
    refused = choose_sandbox()
    assert isinstance(refused, NoSandbox)
    assert "no sandbox" in refused.call(SUM, {"items": []}, timeout_ms=100, memory_mb=64).error
    assert choose_sandbox(weaker=True).kind in {"namespaces", "none"}


def test_no_hostile_tool_reaches_the_canaries(tmp_path: Path) -> None:
    box = choose_sandbox()
    if box.kind != "bubblewrap":
        pytest.skip("bubblewrap cannot run here")
    draw = random.Random(7)  # noqa: S311 not for secrets
    folder = tmp_path / "cage"
    folder.mkdir()
    with canary(folder) as found:
        for number in range(40):
            slow = number == 0
            code = hostile_tool(draw, found, slow=slow)
            box.call(code, {}, timeout_ms=200 if slow else 3_000, memory_mb=256)
        assert found.is_alive


def test_the_canaries_would_notice(tmp_path: Path) -> None:
    import socket  # noqa: PLC0415

    with canary(tmp_path) as found:
        alive = [found.is_alive]
        socket.create_connection(("127.0.0.1", found.port), 5).close()
        deadline = time.monotonic() + 5
        while not found.reached and time.monotonic() < deadline:
            time.sleep(0.01)
        alive.append(found.is_alive)
    assert alive == [True, False]


def test_three_hundred_hostile_answers_crash_nothing() -> None:
    assert 0 < count_decisions(7, 300) < 300
    ends = count_ends(7, 20)
    assert (ends["crashed"], ends["open"], ends.total()) == (0, 0, 20)
