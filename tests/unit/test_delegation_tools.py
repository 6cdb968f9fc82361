"""Tools of a delegation loop: the static checks in their order, the cache, the repair, the limits."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import pytest

from agents.delegation.tool_policy import (
    ToolSpec,
    code_fault,
    name_fault,
    probe_inputs,
    read_tool,
    signature_fault,
    static_fault,
    tool_hash,
)
from agents.executors.delegation.forge import Forge
from agents.executors.delegation.sandbox import Boxed, NoSandbox
from eventlog.events import Capability, SandboxKind, ToolsConfig
from tests.looping import a_journal

CONFIG = ToolsConfig()
SUM = "def handler(*, items):\n    return {'sum': sum(items)}\n"
ITEMS: dict[str, Any] = {"type": "object", "properties": {"items": {"type": "array"}}}


def tool(code: str = SUM, name: str = "dynamic.sum", parameters: Any = None, described: str = "adds") -> ToolSpec:
    return ToolSpec(fqn=name, code=code, parameters=ITEMS if parameters is None else parameters, description=described)


def body(line: str) -> str:
    return f"def handler(*, items):\n    x = {line}\n    return {{'x': x}}\n"


class Trusting:
    """A sandbox for tests of the pipeline: calls the handler in this process."""

    kind: SandboxKind = "namespaces"

    def __init__(self) -> None:
        self.calls = 0

    def call(self, code: str, arguments: dict[str, Any], *, timeout_ms: int, memory_mb: int) -> Boxed:
        self.calls += 1
        space: dict[str, Any] = {}
        try:
            exec(code, space)  # noqa: S102 written in this file
            return Boxed(space["handler"](**arguments))
        except Exception as problem:  # noqa: BLE001 whatever a tool raises
            return Boxed(None, f"{type(problem).__name__}: {problem}")


def a_forge(**config: Any) -> Forge:
    return Forge(a_journal(), Trusting(), ToolsConfig(**config))


def test_a_hash_ignores_spaces_at_line_ends_and_the_order_of_keys() -> None:
    spaced = tool(SUM.replace("\n", "   \n"), parameters={"properties": ITEMS["properties"], "type": "object"})
    assert tool_hash(tool()) == tool_hash(spaced)
    assert len(tool_hash(tool())) == 64
    assert tool_hash(tool()) != tool_hash(tool(name="dynamic.other"))


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("sum", 400),
        ("Dynamic.sum", 400),
        ("dynamic.", 400),
        ("dynamic.../x", 400),
        ("dynamic.a b", 400),
        ("web.fetch", 403),
        ("code.run", 403),
        ("foreign.sum", 403),
        ("dynamic.sum", None),
        ("dynamic.deep.sum", None),
    ],
)
def test_a_name_has_a_namespace_that_is_allowed(name: str, status: int | None) -> None:
    fault = name_fault(name, CONFIG)
    assert (None if fault is None else fault.status) == status
    assert fault is None or not fault.is_repairable


@pytest.mark.parametrize(
    "module",
    [
        "os",
        "subprocess",
        "sys",
        "ctypes",
        "importlib",
        "signal",
        "multiprocessing",
        "posix",
        "pty",
        "builtins",
        "concurrent.futures",
    ],
)
@pytest.mark.parametrize("capabilities", [(), ("network", "filesystem", "compute")])
def test_what_is_always_denied_no_capability_unlocks(module: str, capabilities: tuple[Capability, ...]) -> None:
    fault = code_fault(tool(f"import {module}\n{SUM}"), ToolsConfig(capabilities=capabilities))
    assert fault is not None
    assert (fault.category, fault.status, fault.is_repairable) == ("import", 403, True)
    assert fault.hint.startswith("Alternative: ")


def test_a_capability_unlocks_its_own_modules_and_no_others() -> None:
    network = ToolsConfig(capabilities=("network",))
    assert code_fault(tool(f"import requests\n{SUM}"), CONFIG) is not None
    assert code_fault(tool(f"import requests, httpx\n{SUM}"), network) is None
    assert code_fault(tool(f"import pathlib\n{SUM}"), network) is not None
    assert code_fault(tool(f"import json, math, re\n{SUM}"), CONFIG) is None
    assert code_fault(tool(f"from . import x\n{SUM}"), CONFIG) is not None


@pytest.mark.parametrize(
    "line",
    [
        "eval('1')",
        "exec('1')",
        "compile('1', '', 'eval')",
        "__import__('os')",
        "builtins.__import__('os')",
        "getattr(items, '__import__')",
        "getattr(items, '__globals__')",
        "().__class__.__bases__",
        "().__class__.__subclasses__()",
        "handler.__globals__",
        "handler.__code__",
        "__builtins__",
    ],
)
def test_what_gets_round_the_import_check_is_refused(line: str) -> None:
    fault = code_fault(tool(body(line)), CONFIG)
    assert fault is not None
    assert fault.status == 403


def test_a_word_in_a_message_makes_no_import_of_a_fault() -> None:
    fault = code_fault(tool("def handler(*, items):\n    'import os'\n"), CONFIG)
    assert fault is not None
    assert fault.category == "validation"


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("def handler(*, items):\n    pass\n", "returns nothing"),
        ("def handler(*, items):\n    return\n", "returns nothing"),
        (SUM + SUM, "2 functions"),
        ("x = 1\n", "0 functions"),
        ("def handler(items):\n    return {}\n", "positional"),
        ("def handler(*items):\n    return {}\n", "positional"),
        ("def handler(:\n", "parsed"),
        ("x" * 60_000, "longer"),
        ("(" * 5_000, "parsed"),
        ("def handler(*, items):\n    return {'ü': '\\U0001f600'}\n", None),
        ("async def handler(**kwargs):\n    return {}\n", None),
    ],
)
def test_a_tool_is_one_handler_that_returns(code: str, why: str | None) -> None:
    fault = code_fault(tool(code), CONFIG)
    assert (fault is None) == (why is None)
    assert fault is None or why is None or (why in fault.why and fault.category == "validation")


@pytest.mark.parametrize(
    ("code", "is_fine"),
    [
        ("def handler(*, items, other):\n    return {}\n", False),
        ("def handler(**kwargs):\n    return {'x': kwargs['other']}\n", False),
        ("def handler(**kwargs):\n    return {'x': kwargs.get('other')}\n", False),
        ("def handler(**kwargs):\n    return {'x': kwargs.pop('items')}\n", True),
        ("def handler(*, items, _secrets):\n    return {}\n", True),
        ("def handler():\n    return {}\n", True),
    ],
)
def test_a_handlers_arguments_stand_in_the_schema(code: str, is_fine: bool) -> None:
    fault = signature_fault(tool(code))
    assert (fault is None) == is_fine
    assert fault is None or (fault.category == "schema_mismatch" and fault.is_repairable)


@pytest.mark.parametrize(
    "spec",
    [
        tool(body("'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAA'")),
        tool(described="writes a placeholder image"),
        tool(name="dynamic.placeholder_chart"),
        tool(body("'%PDF-1.1 placeholder'")),
    ],
)
def test_a_tool_that_only_pretends_is_refused_for_good(spec: ToolSpec) -> None:
    fault = static_fault(spec, CONFIG)
    assert fault is not None
    assert (fault.status, fault.is_repairable) == (403, False)


def test_a_dry_run_has_an_input_of_each_type() -> None:
    shape = {
        "a": {"type": "string"},
        "b": {"type": "integer"},
        "c": {"type": "boolean"},
        "d": {"type": "array"},
        "e": {"type": "object"},
        "f": {"enum": ["x", "y"]},
        "g": {"type": "string", "default": "z"},
        "h": {},
    }
    code = "def handler(**kwargs):\n    return {}\n"
    found = probe_inputs(tool(code, parameters={"type": "object", "properties": shape}))
    assert found == {"a": "", "b": 0, "c": False, "d": [], "e": {}, "f": "x", "g": "z", "h": None}


def test_a_namespace_may_have_capabilities_of_its_own() -> None:
    config = ToolsConfig(namespaces=("dynamic", "fetch"), namespace_capabilities={"fetch": ("compute", "network")})
    asks = tool(f"import httpx\n{SUM}")
    assert code_fault(asks, config) is not None
    assert code_fault(asks.model_copy(update={"fqn": "fetch.sum"}), config) is None
    narrow = ToolsConfig(capabilities=("network",), namespace_capabilities={"dynamic": ()})
    assert code_fault(asks, narrow) is not None


@pytest.mark.parametrize("value", [None, 7, {}, {"fqn": "a.b"}, {"code": "x"}, {"fqn": 1, "code": 2}])
def test_what_is_no_tool_is_not_read_as_one(value: object) -> None:
    assert read_tool(value) is None


def test_a_tool_is_there_for_the_next_worker_and_the_same_code_is_a_cache_hit() -> None:
    forge = a_forge()
    first = forge.forge(tool(), "one", 1, None)
    assert (first.fault, first.is_cached) == (None, False)
    assert forge.call("dynamic.sum", {"items": [1, 2]}).value == {"sum": 3}
    second = forge.forge(tool(), "two", 2, None)
    assert (second.fault, second.is_cached) == (None, True)
    assert list(forge.known_tools(2)) == ["dynamic.sum"]
    assert list(forge.known_tools(1)) == []
    again = forge.forge(tool(), "one", 1, None)
    assert not again.is_cached  # the same worker, run again after a kill


def test_better_code_is_a_new_version() -> None:
    forge = a_forge()
    forge.forge(tool(), "one", 1, None)
    better = forge.forge(tool(SUM.replace("sum(items)", "sum(items) + 0")), "two", 2, None)
    assert better.fault is None
    assert forge.journal.tools.tools["dynamic.sum"].version == 2
    assert len(forge.journal.tools.hashes) == 2


def test_a_sibling_is_told_of_the_version_that_stood_when_its_iteration_began_and_calls_the_newest() -> None:
    forge = a_forge()
    forge.forge(tool(), "one", 1, None)
    for number in (1, 2):  # two versions within one iteration
        assert (
            forge.forge(tool(SUM.replace("sum(items)", f"sum(items) + {number}")), f"w{number}", 2, None).fault is None
        )
    assert forge.known_tools(2)["dynamic.sum"].code == SUM
    assert "+ 2" in forge.known_tools(3)["dynamic.sum"].code
    assert forge.call("dynamic.sum", {"items": [1, 2]}).value == {"sum": 5}


def test_a_tool_that_fails_its_dry_run_is_not_registered() -> None:
    forge = a_forge()
    found = forge.forge(tool("def handler(*, items):\n    return {'x': items[0]}\n"), "one", 1, None)
    assert found.category == "dry_run"
    assert forge.journal.tools.tools == {}


def test_a_repair_fixes_it_and_a_bad_one_gives_up_after_two() -> None:
    broken = tool("import os\n" + SUM)
    prompts: list[str] = []

    def fix(prompt: str) -> str:
        prompts.append(prompt)
        return json.dumps({"code": SUM})

    fixed = a_forge().forge(broken, "one", 1, fix)
    assert (fixed.fault, fixed.repairs, fixed.spec.fqn) == (None, 1, "dynamic.sum")
    assert "os may not be imported" in prompts[0]
    prompts.clear()

    def fail(prompt: str) -> str:
        prompts.append(prompt)
        return json.dumps({"code": "import os\n"})

    lost = a_forge().forge(broken, "one", 1, fail)
    assert (lost.category, lost.repairs, len(prompts)) == ("import", 2, 2)
    assert a_forge().forge(broken, "one", 1, lambda _prompt: "nothing").repairs == 1


def test_a_policy_refusal_is_not_repaired_and_renaming_a_worker_gains_no_tools() -> None:
    forge = a_forge(max_tools_per_worker=1)
    assert forge.forge(tool(name="web.x"), "one", 1, lambda _p: pytest.fail("was asked")).category == "policy"
    assert forge.forge(tool(), "one", 1, None).fault is None
    second = forge.forge(tool(name="dynamic.other"), "one_v2", 1, None)
    assert second.fault is not None
    assert second.fault.status == 429


def test_without_a_sandbox_a_tool_is_refused_for_good_and_no_repair_is_asked_for() -> None:
    forge = Forge(a_journal(), NoSandbox(), ToolsConfig())
    refused = forge.forge(tool(), "one", 1, lambda _p: pytest.fail("was asked"))
    assert refused.fault is not None
    assert (refused.category, refused.repairs, refused.fault.status) == ("policy", 0, 403)


def test_the_tools_of_a_loop_are_limited() -> None:
    forge = a_forge(max_total=1)
    forge.forge(tool(), "one", 1, None)
    found = forge.forge(tool(name="dynamic.other"), "two", 1, None)
    assert found.fault is not None
    assert found.fault.status == 429


def at_once(number: int, work: Callable[[int], object]) -> None:
    """Do a piece of work in so many threads that begin together."""
    start = threading.Barrier(number)

    def begin(each: int) -> None:
        start.wait()
        work(each)

    threads = [threading.Thread(target=begin, args=(each,)) for each in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_fifty_tools_at_once_are_all_registered_and_twenty_of_one_kind_are_one() -> None:
    many = a_forge()
    at_once(50, lambda n: many.forge(tool(name=f"dynamic.t{n}"), f"w{n}", 1, None))
    assert len(many.journal.tools.tools) == 50
    same = a_forge()
    at_once(20, lambda n: same.forge(tool(), f"w{n}", 1, None))
    (entry,) = same.journal.tools.tools.values()
    assert (entry.version, same.journal.tools.metrics.forged) == (1, 1)
    few = a_forge(max_total=3)
    at_once(20, lambda n: few.forge(tool(name=f"dynamic.t{n}"), f"w{n}", 1, None))
    assert len(few.journal.tools.tools) == 3


def test_a_worker_that_may_write_no_more_may_still_improve_what_is_there() -> None:
    forge = a_forge(max_tools_per_worker=1)
    forge.forge(tool(), "one", 1, None)
    assert forge.forge(tool(SUM.replace("sum(items)", "sum(items) + 0")), "one", 2, None).fault is None
    assert forge.journal.tools.tools["dynamic.sum"].version == 2
