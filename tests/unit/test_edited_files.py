"""Files that people edit are bounded before they are parsed; what leads out of a site is refused with its line."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from agents.edited_files import FileTooLarge, locate_problem, read_edited
from agents.envs.addresses import fault_of_path
from agents.envs.errors import BadDialect
from agents.envs.foreign.answers import is_unknown_task
from agents.envs.foreign.dialect import Dialect, read_dialect
from agents.learning.memory_file import BadMemoryFile, read_memory_file
from agents.rollouts.errors import BadTaskFile
from agents.rollouts.task_file import read_task_file

STEP = {"type": "navigate", "intent": "open", "url": "/boats"}
OCCASION = {"environment": "shop", "type": "navigate", "intent": "open", "page": ""}


def memory(*changes: dict[str, Any]) -> str:
    pieces = [{"kind": "hint", "occasion": OCCASION, "text": "", "change": change} for change in changes]
    return json.dumps({"form": "flywheel-memory-1", "pieces": pieces}, indent=1)


def tasks(*steps: dict[str, Any]) -> str:
    told = dict.fromkeys(("template_id", "cluster", "oracle_task_id", "instruction"), "t")
    return json.dumps([{**told, "plan_steps": steps}], indent=1)


def line_with(text: str, word: str) -> str:
    return f"line {next(number for number, line in enumerate(text.splitlines(), 1) if word in line)}, "


@pytest.mark.parametrize("path", ["/", "/boats", "/boats?next=//x&up=..", "boats/1", "/a..b/c", "/a#//b", "/%41"])
def test_a_path_of_a_site_is_none_of_these(path: str) -> None:
    assert fault_of_path(path) is None


OUTSIDE = [
    *("//evil.test/x", "/%2fevil.test", "http://evil.test/", "file:///etc/passwd", "javascript:alert(1)"),
    *("/\\evil.test", "/%5Cevil.test", "/a/../../b", "..", "/%2e%2e/b", "/a\r\nb", "/a%0d%0ab", " https://evil.test"),
]


@pytest.mark.parametrize("path", OUTSIDE)
def test_what_leads_out_of_a_site_is_refused_in_a_dialect(path: str, tmp_path: Path) -> None:
    as_json, as_toml = tmp_path / "d.json", tmp_path / "d.toml"
    as_json.write_text(json.dumps({"site": "s", "paths": {"health": "/up", "oracle": path}}, indent=1))
    as_toml.write_text(f'site = "s"\n\n[paths]\nhealth = "/up"\noracle = {json.dumps(path)}\n')
    with pytest.raises(BadDialect, match=r"line 5, paths\.oracle: "):
        read_dialect(as_json)
    with pytest.raises(BadDialect, match=r"line 5, paths\.oracle: "):
        read_dialect(as_toml)


@pytest.mark.parametrize("path", OUTSIDE)
def test_what_leads_out_of_a_site_is_refused_in_memory_and_in_tasks(path: str, tmp_path: Path) -> None:
    opened = {"kind": "replace_url", "url": path}
    put_in = {"kind": "insert_steps", "steps": [STEP, {**STEP, "url": path}]}
    followed = {"kind": "follow_link", "page": path, "label": "x"}
    shown = json.dumps(path)
    for change, field in ((opened, "url"), (put_in, "steps.1.url"), (followed, "page")):
        text = memory({"kind": "prefer_target", "label": "x"}, change)
        with pytest.raises(BadMemoryFile, match=line_with(text, shown) + rf"pieces\.1\.change\.{field}: "):
            read_memory_file(text)
    file = tmp_path / "tasks.json"
    file.write_text(tasks(STEP, {**STEP, "url": path}))
    with pytest.raises(BadTaskFile, match=line_with(file.read_text(), shown) + r"0\.plan_steps\.1\.url: "):
        read_task_file(file)


@pytest.mark.parametrize(
    ("told", "place"),
    [
        ({"headers": {"x-a": "1", "x-b": "2\r\nx-admin: yes"}}, r"headers\.x-b: "),
        ({"headers": {"x-a\r\nx-admin": "1"}}, r"headers\."),
        ({"headers": {"x-a": "\u0000"}}, r"headers\.x-a: "),
        ({"admin_header": "x: y"}, "admin_header: "),
        ({"instance_header": "x\ny"}, "instance_header: "),
        ({"page_url": "file:///etc/passwd"}, "page_url: "),
        ({"page_url": "http://shop.test\\@evil.test/"}, "page_url: "),
        ({"witnesses": ["/a", "//evil.test"]}, r"witnesses\.1: "),
        ({"unknown_task_reason": "("}, "unknown_task_reason: .*regular expression"),
        ({"unknown_task_reason": r"(a)\1"}, "unknown_task_reason: .*regular expression"),
        ({"unknown_task_reason": "a(?=b)"}, "unknown_task_reason: .*regular expression"),
        ({"unknown_task_reason": "((a{1000}){1000}){1000}"}, "unknown_task_reason: .*regular expression"),
    ],
)
def test_what_a_dialect_must_not_hold_is_refused_with_line_and_field(
    told: dict[str, Any], place: str, tmp_path: Path
) -> None:
    file = tmp_path / "d.json"
    file.write_text(json.dumps({"site": "s", **told}, indent=1))
    with pytest.raises(BadDialect, match=r"line [3-6], " + place):
        read_dialect(file)


def test_no_pattern_of_a_dialect_takes_longer_than_its_text() -> None:
    dialect, began = Dialect(unknown_task_reason="(a+)+$"), time.process_time()
    assert not is_unknown_task({"passed": False, "reasons": ["a" * 100_000 + "!"]}, dialect)
    assert is_unknown_task({"passed": False, "reasons": ["!" + "a" * 100_000]}, dialect)
    assert time.process_time() - began < 1


def test_a_file_with_very_many_steps_is_refused_before_each_is_checked(tmp_path: Path) -> None:
    steps, began = [STEP] * 100_000, time.process_time()
    with pytest.raises(BadMemoryFile, match="100000 steps; expected at most 10000"):
        read_memory_file(memory({"kind": "insert_steps", "steps": steps}))
    with pytest.raises(BadMemoryFile, match="10001 pieces; expected at most 10000"):
        read_memory_file('{"pieces": [' + ",".join(["{}"] * 10_001) + "]}")
    file = tmp_path / "tasks.json"
    file.write_text(tasks(*steps))
    with pytest.raises(BadTaskFile, match="100000 steps; expected at most 10000"):
        read_task_file(file)
    assert time.process_time() - began < 5


def test_a_file_that_is_too_large_is_not_read_to_its_end(tmp_path: Path) -> None:
    file = tmp_path / "d.toml"
    file.write_text("#" * 1_000_000)
    with pytest.raises(FileTooLarge, match="262144"):
        read_dialect(file)
    with pytest.raises(FileTooLarge, match="more than 10 bytes"):
        read_edited(Path("/dev/zero"), 10)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"pieces": ' * 50_000, "{", "[1]", '{"pieces": 1}'])
def test_what_is_no_memory_file_is_said(text: str, tmp_path: Path) -> None:
    with pytest.raises(BadMemoryFile):
        read_memory_file(text)
    file = tmp_path / "tasks.json"
    file.write_text(text)
    with pytest.raises(BadTaskFile):
        read_task_file(file)


def test_the_line_of_a_field_is_found_whatever_stands_before_it() -> None:
    text = '{"a": [1, {"b": "}]\\"",\n "c": {"d": [\n[],\n {"e": 5}]}}],\n "f": 6}'
    assert locate_problem(("a", 1, "c", "d", 1, "e"), "x", text) == "line 4, a.1.c.d.1.e: x"
    assert locate_problem(("a", 1, "tag", "c", "missing"), "x", text).startswith("line 2, ")
    assert locate_problem(("f",), "x", text).startswith("line 5, ")
    assert locate_problem((), "x", text) == "the file: x"
    toml = 'site = "s"\n[[tasks]]\ntask_id = "a"\n\n[[tasks]]\ntask_id = "b"\ninstruction = 7\n[row]\nid = 5\n'
    assert locate_problem(("tasks", 1, "instruction"), "x", toml, is_toml=True).startswith("line 7, ")
    assert locate_problem(("row", "id"), "x", toml, is_toml=True).startswith("line 9, ")
