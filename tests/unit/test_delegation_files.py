"""Files of a result: what is read as one, what makes one useless, and the gates that a completion's files pass."""

from __future__ import annotations

import time
from typing import Any

import pytest
import typer
from pydantic import ValidationError

from agents.delegation.files import MOST_CHARS, MOST_FILES, file_fault, files_in, merge_files
from agents.delegation.gates import ProposedResult, reject
from agents.delegation.prompts import WorkOrder
from agents.executors.delegation.workers import WorkDesk
from agents.models.scripted import Scripted
from api.cli.delegate_options import read_outputs
from eventlog.events import CompletionConfig, LoopConfig, LoopLimits
from tests.looping import a_journal, a_loop, complete, delegate, events_of, prompt_of

LONG = (
    "A paragraph that is long enough to be counted as one, because it has more than a hundred and twenty characters "
    * 2
)


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("a.md", "# Report\n\nAll is well.", None),
        ("a.md", " \n", "is empty"),
        ("a.md", "# Report\n\nTODO", "placeholder"),
        ("a.py", "# TODO: faster\nx = 1\n", None),
        ("a.py", "x = 'TODO'\n", "placeholder"),
        ("a.py", "def f(:\n", "no Python"),
        ("a.json", '{"a": 1}', None),
        ("a.json", '{"a": 1', "no JSON"),
        ("a.json", "[]", "empty JSON"),
        ("a.json", "NaN", "no JSON"),
        ("a.csv", "name,sum\n", "no row"),
        ("a.csv", "name,sum\n,\n", "no row"),
        ("a.csv", "name,sum\na,1\n", None),
        ("a.png", "iVBORw0", ".png is no text"),
        ("a.md", "```\ncode", "does not close"),
        ("a.md", "# One\n\nx\n\n# One\n\ny", "twice"),
        ("a.md", "```\n# One\n```\n\n# One\n\ny", None),
        ("a.md", "## stable tables, N/A, XXI\n\nx", None),
        ("a.md", "# A b\n[x](#a-b) [y](#no) [z](#none)", None),
        ("a.md", "# A b\n[x](#one) [y](#two) [z](#three)", "not there: one, two, three"),
        ("a.md", "\n\n".join([f"{n} {LONG}" for n in range(4)] + [f"0 {LONG}", f"1 {LONG}"]), "paragraph"),
        ("Makefile", "all:\n", None),
        ("a.json", "[" * 100_000, "no JSON"),
        ("a.py", "(" * 5_000, "no Python"),
    ],
)
def test_a_file_that_is_useless_is_told_what_for(name: str, text: str, why: str | None) -> None:
    fault = file_fault(name, text)
    assert (fault is None) == (why is None), fault
    assert fault is None or why is None or why in fault


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a" + "\n" * 90_000 + "b", None),
        ("# x" + " " * 90_000 + "y", None),
        ("# a\n" + "](#" * 30_000, None),
        ("".join(f"# {n}\n" for n in range(20_000)), None),
        ("```\n" * 22_501, "does not close"),
    ],
    ids=["empty lines", "a heading of spaces", "open links", "headings", "fences"],
)
def test_no_text_of_a_worker_takes_long_to_judge(text: str, why: str | None) -> None:
    """Each takes under a fifth of a second; a search that reads on from every line takes a minute."""
    begun = time.process_time()
    fault = file_fault("a.md", text)
    assert time.process_time() - begun < 5
    assert (fault is None) == (why is None)
    assert why is None or why in str(fault)


def test_a_heading_is_linked_to_whatever_closes_it() -> None:
    closed = "# A b ##\n## C\t\n### D  e  \n"
    links = "[x](#a-b) [y](#c) [z](#d--e) [no](#f) [none](#g)"
    assert file_fault("a.md", closed + links) is None
    assert "not there: f, g, h" in str(file_fault("a.md", f"{closed}{links} [nowhere](#h)"))


def test_names_of_files_are_no_paths_and_what_is_no_text_is_no_file() -> None:
    assert files_in({"files": {"../../etc/passwd": "x", "a.md": "y", "b": 7, "": "z", "/": "q"}}) == {
        "etc_passwd": "x",
        "a.md": "y",
    }
    assert files_in({"files": ["a.md"]}) == files_in({}) == {}


def test_of_one_name_the_latest_stays_however_short_and_the_files_have_limits() -> None:
    assert merge_files([{"files": {"a": "long text"}}, {"files": {"a": "x"}}]) == {"a": "x"}
    assert list(merge_files([{"files": {"a": "x" * MOST_CHARS}}, {"files": {"b": "y"}}])) == ["a"]
    many = [{"files": {f"f{n}_{m}": "x" for m in range(60)}} for n in range(3)]
    assert len(merge_files(many)) == MOST_FILES


def writing(*texts: dict[str, str]) -> Any:
    """A worker that returns these files, one after the other."""
    turns = iter(texts)

    def work(order: WorkOrder, _desk: WorkDesk) -> dict[str, Any]:
        return {"findings": order.worker, "confidence": 0.9, "files": next(turns)}

    return work


def asked_for(*outputs: str, **budget: int) -> LoopConfig:
    return LoopConfig(completion=CompletionConfig(required_outputs=outputs), budget=LoopLimits(**budget))


def gates_of(loop: Any) -> list[tuple[str, str]]:
    return [(each.gate, each.why) for each in events_of(loop.journal) if each.type == "CompletionRejected"]


def test_a_completion_has_the_files_that_were_asked_for_and_they_are_sound() -> None:
    script = [delegate("a"), complete(), delegate("b"), complete(), delegate("c"), complete()]
    work = writing({"notes.txt": "TODO"}, {"report.md": "# Report\n\nTODO"}, {"report.md": "# Report\n\nFine."})
    loop = a_loop(script, work, a_journal(asked_for("report.md")))
    state = loop.run()
    assert state.status == "complete"
    assert gates_of(loop) == [
        ("required_outputs", "the result lacks the file report.md"),
        ("file", "report.md holds a placeholder: 'TODO'"),
    ]
    content = loop.journal.record_at(str(state.result))
    assert content["files"] == {"notes.txt": "TODO", "report.md": "# Report\n\nFine."}
    model = loop.means.manager
    assert isinstance(model, Scripted)
    assert "## Required Files\nreport.md" in prompt_of(model.requests[0])


def test_without_files_asked_for_every_file_is_judged_and_the_managers_own_count() -> None:
    own = '{"decision": "complete", "final_result": {"answer": "x", "files": {"b.json": "{"}}}'
    loop = a_loop([delegate("a"), own, complete(), '{"decision": "fail"}'], writing({"a.csv": "x\n"}))
    loop.run()
    assert [gate for gate, _ in gates_of(loop)] == ["file", "file"]
    off = LoopConfig(completion=CompletionConfig(file_gates=False))
    assert a_loop([delegate("a"), complete()], writing({"a.csv": "x\n"}), a_journal(off)).run().status == "complete"


def test_the_last_budgeted_loop_does_not_pass_the_gates_of_files() -> None:
    loop = a_loop([delegate("a"), complete()], writing({"a.md": "x"}), a_journal(asked_for("b.md", max_loops=2)))
    assert loop.run().status == "partial_complete"
    assert [gate for gate, _ in gates_of(loop)] == ["required_outputs"]


@pytest.mark.parametrize("verdict", [True, False])
def test_ground_truth_does_not_replace_a_file_that_was_asked_for(*, verdict: bool) -> None:
    def found(config: LoopConfig, **files: str) -> str | None:
        rejection = reject(ProposedResult({"answer": "42"}, (), (), verdict, files=files), config)
        return None if rejection is None else rejection.gate

    after = None if verdict else "oracle"
    assert found(asked_for("report")) == "required_outputs"
    assert found(asked_for("report"), report="TODO") == after
    ungated = CompletionConfig(required_outputs=("report",), file_gates=False)
    assert found(LoopConfig(completion=ungated)) == after


@pytest.mark.parametrize(
    "name",
    ["a", "a.md", "A_b-1.tar.gz", "a..b", "x" * 60, "x" * 61, "_x.md", "-x", ".x", "a-", "a.", "a_", "a b", "", "ä.md"],
)
def test_a_file_can_be_asked_for_if_a_worker_can_write_it_under_that_name(name: str) -> None:
    try:
        asked = asked_for(name).completion.required_outputs == (name,)
    except ValidationError:
        asked = False
    assert asked == (list(files_in({"files": {name: "x"}})) == [name])


@pytest.mark.parametrize("given", ["../a.md", "a/b.md", ".hidden", "", "chart.png", "x" * 200])
def test_what_is_no_name_of_a_text_file_is_refused(given: str) -> None:
    with pytest.raises(typer.BadParameter, match="--output"):
        read_outputs([given])
