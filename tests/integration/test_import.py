"""`flywheel import`: traces and chat logs from files, recorded once; a broken line is named."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from api.cli.main import run_command
from api.house import House
from api.ingest.errors import UnreadableTwice
from api.ingest.files import import_files
from eventlog.events import ModelCalled, RewardGraded, SpansKept
from tests.conftest import Database
from tests.traced import TRACE, chat, request, score, span

CHAT = {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]}
Import = Callable[..., tuple[int, str, str]]


@pytest.fixture
def house(empty_house: House) -> House:
    return empty_house


@pytest.fixture
def import_from(
    empty_database: Database, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Import:
    """A function that writes a file and imports it: the exit code, and what was printed."""
    monkeypatch.setenv("FLYWHEEL_DATABASE_URL", empty_database.app_url)

    def run(*lines: Any, name: str = "log.jsonl") -> tuple[int, str, str]:
        file = tmp_path / name
        file.write_text("\n".join(each if isinstance(each, str) else json.dumps(each) for each in lines))
        code = run_command(["import", str(file), "--json"])
        return code, *capsys.readouterr()

    return run


def events(house: House, run: str) -> list[Any]:
    return [each.event for each in house.store.read(stream=f"run/{run}")]


def test_traces_and_chats_are_recorded_once(import_from: Import, house: House) -> None:
    lines = (
        {**CHAT, "id": "first", "reward": 1},
        request(span(1, events=[score("reward", 0.25)]), chat(2)),
        "",
        request(chat(3), chat(2)),
        CHAT,
    )
    code, out, _ = import_from(*lines)
    found = json.loads(out)
    assert (code, found["chats"], found["spans"], found["refused_spans"]) == (0, 2, 3, 0)
    assert [type(each) for each in events(house, "ext-chat-first")][1::2] == [ModelCalled, RewardGraded]
    trace = events(house, f"ext-otel-{TRACE}")
    kept = [each for each in trace if isinstance(each, SpansKept)]
    assert [(each.mapping, each.source) for each in kept] == [("genai-1", "file")]
    assert [each.score for each in trace if isinstance(each, RewardGraded)] == [250_000]
    head = house.store.head()
    code, out, _ = import_from(*lines)
    again = json.loads(out)
    assert (code, again["chats"], again["known_chats"], again["spans"], again["known_spans"]) == (0, 0, 2, 0, 4)
    assert house.store.head() == head


def test_one_object_may_fill_a_file(import_from: Import, house: House) -> None:
    code, out, _ = import_from(json.dumps(request(chat(2)), indent=2), name="trace.json")
    assert (code, json.loads(out)["spans"]) == (0, 1)
    assert house.store.head() == 3


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "not plain JSON"),
        ("7", "expected a JSON object"),
        ({"text": "Hi"}, "an object with text; expected a chat with `messages`, or traces"),
        ({**CHAT, "reward": 3}, "reward is 3; expected a number from 0 to 1"),
        ({"messages": [{"role": "user", "content": "Hi"}]}, "messages is without an answer"),
        ({"resourceSpans": 1}, "no OTLP"),
    ],
)
def test_a_broken_line_is_named_and_nothing_of_the_file_is_written(
    import_from: Import, house: House, line: Any, said: str
) -> None:
    code, _, err = import_from(CHAT, CHAT, line)
    assert code == 1
    assert "log.jsonl, line 3: " in err
    assert said in err
    assert house.store.head() == 0


def test_a_chat_under_a_recorded_name_with_other_content_is_named(import_from: Import, house: House) -> None:
    import_from({**CHAT, "id": "a"})
    head = house.store.head()
    code, _, err = import_from({**CHAT, "id": "a"}, {**CHAT, "id": "a", "reward": 0})
    assert code == 1
    assert "line 2: the run ext-chat-a is recorded with other content" in err
    assert house.store.head() == head


def test_a_span_that_is_refused_is_said_and_is_an_error(import_from: Import, house: House) -> None:
    code, out, _ = import_from(request(chat(2, traceId="ab"), chat(3)))
    found = json.loads(out)
    assert (code, found["spans"], found["refused_spans"]) == (1, 1, 1)
    assert "Trace id 'ab'" in found["why"][0]
    assert house.store.head() == 3


def test_a_pipe_is_refused_before_anything_is_read(empty_house: House) -> None:
    reader, writer = os.pipe()
    os.write(writer, json.dumps(CHAT).encode())
    os.close(writer)
    with os.fdopen(reader, "rb"), pytest.raises(UnreadableTwice, match="no regular file"):
        import_files(empty_house, [Path(f"/dev/fd/{reader}")])
