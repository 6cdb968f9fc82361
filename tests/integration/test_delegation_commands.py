"""`flywheel delegate`, `skills` and `tools` against a model server, with tools in the real sandbox."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agents.executors.delegation.sandbox import choose_sandbox
from api.cli.main import run_command
from api.house import House
from projections.engine.compare import compare
from tests.conftest import Database
from tests.looping import complete, delegate
from tests.model_server import Asked, ModelServer, Reply, model_server

Flywheel = Callable[..., tuple[int, str, str]]
SKILL = "# Skill: Adding Up\n\n## Purpose\nHow to add.\n\n" + "carry the one and go on " * 10
TOOL = {
    "action": "create_tool",
    "fqn": "dynamic.add_up",
    "description": "adds numbers",
    "parameters": {"type": "object", "properties": {"items": {"type": "array"}}},
    "code": "def handler(*, items):\n    return {'sum': sum(items)}\n",
}
CALL = {"action": "call", "tool": "dynamic.add_up", "arguments": {"items": [1, 2, 39]}}


def answer(asked: Asked) -> Reply:
    """A manager and a worker that decide by what they are shown."""
    if "You are a worker" not in asked.text:
        return complete("42") if "### Iteration" in asked.text else delegate("adder")
    if "The tool returned" in asked.text:
        return json.dumps({"action": "answer", "findings": "42", "confidence": 0.9, "skills_created": [SKILL]})
    return json.dumps(CALL if "dynamic.add_up is there" in asked.text or "## Tools" in asked.text else TOOL)


@pytest.fixture
def models() -> Iterator[ModelServer]:
    with model_server(answer) as running:
        yield running


@pytest.fixture
def flywheel(
    empty_database: Database, models: ModelServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Flywheel:
    """Run a command on an empty log, with a model server: exit code, standard output, standard error."""
    monkeypatch.setenv("FLYWHEEL_DATABASE_URL", empty_database.app_url)
    monkeypatch.setenv("FLYWHEEL_OWNER_URL", empty_database.owner_url)
    monkeypatch.setenv("FLYWHEEL_KEYS", str(empty_database.keys))
    monkeypatch.setenv("FLYWHEEL_MODEL", "small")
    monkeypatch.setenv("FLYWHEEL_MODEL_URL", models.url)

    def run(*arguments: str) -> tuple[int, str, str]:
        code = run_command(list(arguments))
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


def test_a_loop_runs_shows_itself_and_leaves_its_skills_and_tools(
    flywheel: Flywheel, empty_house: House, tmp_path: Path
) -> None:
    if choose_sandbox().kind != "bubblewrap":
        pytest.skip("bubblewrap cannot run here, so tools are refused")
    summary = tmp_path / "ROLLING_SUMMARY.md"
    code, out, err = flywheel("delegate", "run", "Add 1, 2 and 39", "--budget", "loops=9", "--summary", str(summary))
    assert (code, "complete after 2 iterations" in out, "answer: 42" in out) == (0, True, True), err
    assert "iteration 1: delegate" in err
    assert "- Iteration: 1" in summary.read_text()
    loop = out.partition(":")[0]
    shown = json.loads(flywheel("delegate", "show", loop, "--json")[1])
    assert shown["result"]["tools"] == ["dynamic.add_up"]
    assert shown["budget"]["pending"] == {}
    assert shown["budget"]["spent"]["tool_calls"] == 2
    assert "delegate" in flywheel("delegate", "show", loop)[1]
    assert json.loads(flywheel("delegate", "list", "--json")[1])[0]["status"] == "complete"
    assert "identical: 2 decisions" in flywheel("runs", "replay", loop)[1]
    assert json.loads(flywheel("delegate", "replay", loop, "--json")[1])["divergence"] is None
    assert [row["tool"] for row in json.loads(flywheel("tools", "list", "--json")[1])] == ["dynamic.add_up"]
    assert "def handler" in flywheel("tools", "show", "dynamic.add_up")[1]
    assert "carry the one" in flywheel("skills", "show", "adding_up")[1]
    empty_house.projector.catch_up()
    assert [found.projection for found in compare(empty_house.views()) if not found.is_identical] == []


def test_what_earlier_loops_left_is_offered_to_later_ones(flywheel: Flywheel, models: ModelServer) -> None:
    if choose_sandbox().kind != "bubblewrap":
        pytest.skip("bubblewrap cannot run here, so tools are refused")
    flywheel("delegate", "run", "Add 1, 2 and 39")
    models.asked.clear()
    flywheel("delegate", "run", "Add them again")
    assert any("`adding_up`" in asked.text for asked in models.asked)
    assert not any("is there" in asked.text for asked in models.asked)  # the tool was not written again
    models.asked.clear()
    flywheel("delegate", "run", "Add them once more", "--fresh")
    first = next(asked for asked in models.asked if "You are the manager" in asked.text)
    assert "adding_up" not in first.text


def test_a_loop_that_waits_is_answered_and_goes_on(flywheel: Flywheel, models: ModelServer) -> None:
    def stuck(asked: Asked) -> Reply:
        if "## Answer to Your Question\nleave it" in asked.text:
            return '{"decision": "fail", "reasoning": "told to"}'
        if "You are a worker" in asked.text:
            return json.dumps({"action": "answer", "findings": "the same", "confidence": 0.7})
        return delegate("a")

    models.answer = stuck
    code, out, _ = flywheel("delegate", "run", "Do it", "--autonomy", "A2")
    assert code == 0
    asking = re.search(r"^(loop-\w+) asks: ", out)
    assert asking is not None
    loop = asking[1]
    assert flywheel("delegate", "resume", loop)[1].startswith(f"{loop} asks")
    assert flywheel("delegate", "answer", loop, " ")[0] == 64
    assert flywheel("delegate", "answer", loop, "leave it")[0] == 0
    assert flywheel("delegate", "answer", loop, "again")[0] == 1
    assert "partial_complete" in flywheel("delegate", "resume", loop)[1]
    code, _, err = flywheel("delegate", "resume", loop)
    assert (code, "has ended" in err) == (1, True)


def test_a_model_that_is_gone_leaves_a_loop_that_resumes(flywheel: Flywheel, models: ModelServer) -> None:
    from starlette.responses import Response  # noqa: PLC0415

    def gone(_asked: Asked) -> Reply:
        return Response("no such model", 404)

    models.answer = gone
    code, _, err = flywheel("delegate", "run", "Add 1, 2 and 39")
    assert (code, "404" in err) == (1, True)
    (row,) = json.loads(flywheel("delegate", "list", "--json")[1])
    assert row["status"] == "open"
    models.answer = answer
    assert "complete" in flywheel("delegate", "resume", row["loop"])[1]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("run", ""), 1, "no text"),
        (("run", "x", "--budget", "loops=-1"), 1, "whole numbers"),
        (("run", "x", "--budget", "apples=1"), 1, "apples=1"),
        (("run", "x", "--budget", "depth=99"), 1, "at most 10"),
        (("run", "@/no/such/file"), 1, "No such file"),
        (("resume", "loop-none"), 1, "no delegation loop"),
        (("answer", "loop-none", "yes"), 1, "no delegation loop"),
        (("show", "loop-none"), 1, "No delegation loop"),
        (("replay", "loop-none"), 1, "no delegation loop"),
        (("export", "loop-none", "out"), 1, "No delegation loop"),
        (("run", "x", "--summary", "/no/such/folder/S.md"), 64, "there is no folder /no/such/folder"),
        (("run", "x", "--output", "../report.md"), 64, "without a folder"),
    ],
)
def test_bad_input_gets_one_sentence(flywheel: Flywheel, words: tuple[str, ...], code: int, said: str) -> None:
    found, _, err = flywheel("delegate", *words)
    assert (found, said in err) == (code, True), err


def test_the_files_of_a_result_go_out_to_a_folder(flywheel: Flywheel, models: ModelServer, tmp_path: Path) -> None:
    def writing(asked: Asked) -> Reply:
        if "You are a worker" in asked.text:
            files = {"report.md": "# Report", "../../escape.md": "# Out"}
            return json.dumps({"action": "answer", "findings": "written", "confidence": 0.9, "files": files})
        return answer(asked)

    models.answer = writing
    out = flywheel("delegate", "run", "Report", "--autonomy", "A1", "--output", "report.md")[1]
    loop, folder = out.partition(":")[0], tmp_path / "deep" / "out"
    assert flywheel("delegate", "export", loop, str(folder))[0] == 0
    assert {each.name: each.read_text() for each in folder.iterdir()} == {"report.md": "# Report", "escape.md": "# Out"}
    plain = flywheel("delegate", "run", "x", "--budget", "tokens=0")[1].partition(":")[0]
    code, _, err = flywheel("delegate", "export", plain, str(folder))
    assert (code, "has no files to write" in err) == (1, True)


def test_a_budget_of_nothing_ends_at_once(flywheel: Flywheel) -> None:
    code, out, _ = flywheel("delegate", "run", "x", "--budget", "tokens=0")
    assert (code, "partial_complete after 0 iterations" in out) == (0, True)


def test_skills_go_out_as_files_and_come_back(flywheel: Flywheel, tmp_path: Path) -> None:
    file = tmp_path / "adding.md"
    file.write_text(SKILL)
    assert json.loads(flywheel("skills", "import", str(file), "--json")[1])["fresh"] == ["adding_up"]
    assert json.loads(flywheel("skills", "import", str(file), "--json")[1])["known"] == ["adding_up"]
    file.write_text(SKILL + "and once more")
    flywheel("skills", "import", str(file))
    assert json.loads(flywheel("skills", "list", "--json")[1])[0]["version"] == 2
    flywheel("skills", "export", str(tmp_path / "out"))
    assert (tmp_path / "out" / "adding_up.md").read_text() == file.read_text()
    bad = tmp_path / "bad.md"
    bad.write_text("# Short\nfew words")
    code, _, err = flywheel("skills", "import", str(file), str(bad))
    assert (code, "2 words" in err or "4 words" in err) == (1, True)


def test_an_operators_grader_and_validator_are_the_ground_truth(flywheel: Flywheel, tmp_path: Path) -> None:
    grader, validator = tmp_path / "grader.py", tmp_path / "validator.py"
    grader.write_text("import json, sys\nprint(json.dumps({'solved': json.load(sys.stdin)['answer'] == '42'}))\n")
    validator.write_text("import json, sys\njson.load(sys.stdin)['result']\nprint('{\"confidence\": 0.25}')\n")
    judges = ("--grader", f"{sys.executable} {grader}", "--validator", f"{sys.executable} {validator}")
    code, out, err = flywheel("delegate", "run", "Add 1, 2 and 39", "--autonomy", "A1", *judges)
    assert (code, "complete after 2 iterations, confidence 1.00" in out) == (0, True), err
    loop = out.partition(":")[0]
    shown = json.loads(flywheel("delegate", "show", loop, "--json")[1])
    assert [each["confidence"] for each in shown["loop"]["history"]] == [250_000]
    assert "A1, without: A2 plans" in flywheel("delegate", "show", loop)[1]


def test_a_grader_that_breaks_pauses_the_loop_and_resuming_asks_for_the_same_means(
    flywheel: Flywheel, tmp_path: Path
) -> None:
    grader = tmp_path / "grader.sh"
    grader.write_text("echo broken; exit 1\n")
    code, _, err = flywheel("delegate", "run", "Add", "--autonomy", "A1", "--grader", f"sh {grader}")
    assert (code, "exit code 1, 'broken'" in err) == (1, True)
    (row,) = json.loads(flywheel("delegate", "list", "--json")[1])
    assert row["status"] == "open"
    code, _, err = flywheel("delegate", "resume", row["loop"])
    assert (code, "; this command brings no grader" in err, str(grader) in err) == (1, True, False)
    assert "opened with the grader 'sh (SHA-256 " in err
    validator = ("--validator", "echo 1")
    code, _, err = flywheel("delegate", "resume", row["loop"], "--grader", f"sh {grader}", *validator)
    assert (code, "opened with no validator; this command brings the validator 'echo (SHA-256 " in err) == (1, True)
    code, _, err = flywheel("delegate", "resume", row["loop"], "--grader", "sh other.sh")
    assert (code, "this command brings the grader 'sh (SHA-256 " in err) == (1, True)
    grader.write_text("echo '{\"solved\": true}'\n")
    code, _, err = flywheel("delegate", "resume", row["loop"], "--grader", f"sh {grader}", "--model", "other")
    assert (code, "the manager 'openai:small'" in err) == (1, True)
    assert "complete" in flywheel("delegate", "resume", row["loop"], "--grader", f"sh {grader}")[1]


def test_a_result_is_refined_by_loops_with_half_its_budget_and_the_best_is_named(
    flywheel: Flywheel, models: ModelServer, tmp_path: Path
) -> None:
    def improving(asked: Asked) -> Reply:
        is_refined = "## What to Improve" in asked.text
        if "You are a worker" in asked.text:
            confidence = 0.9 if "better" in asked.text else 0.6
            return json.dumps({"action": "answer", "findings": "a draft", "confidence": confidence})
        if "### Iteration" in asked.text:
            return complete("a fine text" if is_refined else "a draft", 0.9 if is_refined else 0.6)
        return delegate("a", instructions="better" if is_refined else "write")

    models.answer = improving
    loop = flywheel("delegate", "run", "Write", "--autonomy", "A1")[1].partition(":")[0]
    models.asked.clear()
    code, out, err = flywheel("delegate", "refine", loop, "--json")
    found = json.loads(out)
    assert (code, [each["confidence"] for each in found["rounds"]], found["why"]) == (
        0,
        [900_000],
        "nothing is left to improve",
    ), err
    assert found["best"] == found["rounds"][0]["loop"]
    first = next(asked for asked in models.asked if "You are the manager" in asked.text)
    assert '## Earlier Result\n{"answer": "a draft"}' in first.text
    assert "- a: confidence 0.60: a: a draft" in first.text
    shown = json.loads(flywheel("delegate", "show", found["best"], "--json")[1])["loop"]
    assert shown["refines"] == loop
    assert shown["config"]["budget"]["max_loops"] == 2
    code, _, err = flywheel("delegate", "refine", found["best"])
    assert (code, "every result is accepted" in err) == (1, True)
    code, _, err = flywheel("delegate", "refine", loop, "--grader", "cat")
    assert (code, "opened with no grader" in err) == (1, True)
    code, _, err = flywheel("delegate", "refine", "loop-none")
    assert (code, "no such loop" in err) == (1, True)
