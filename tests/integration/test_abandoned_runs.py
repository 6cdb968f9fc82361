"""A proxy that is killed, and runs that nobody ends: calls are whole or absent, runs are missing, no reward is zero."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
from starlette.responses import StreamingResponse

from api.cli.main import run_command
from api.history.abandoned import end_abandoned, find_abandoned
from api.house import House
from api.tokens import issue
from eventlog.events import ModelCalled, RewardGraded, RunFinished, RunMissing, RunStarted
from tests.conftest import Database
from tests.integration.test_capture_proxy import MODEL, USAGE, calls_of, client_at, completion_of, part, proxied
from tests.killing import Project, project_on, the_log_is_whole
from tests.model_server import Asked, Reply, model_server

ASK: Any = [{"role": "user", "content": "2 + 2?"}]
LATER = timedelta(hours=1)


def types_of(house: House, run: str) -> list[str]:
    return [each.event.type for each in house.store.read(stream=f"run/{run}")]


def test_an_abandoned_run_is_missing_and_takes_nothing_more(empty_house: House) -> None:
    with model_server(lambda _: "four") as upstream, proxied(empty_house, upstream) as proxy:
        address, token, house = proxy
        for run in ("ext-open", "ext-done", "ext-late"):
            client_at(proxy, run).chat.completions.create(model=MODEL, messages=ASK)

        def reward(run: str) -> int:
            headers = {"Authorization": f"Bearer {token}"}
            body = {"score": 1, "passed": True}
            return httpx2.post(f"{address}/v1/runs/{run}/reward", json=body, headers=headers).status_code

        assert reward("ext-done") == 200
        assert list(find_abandoned(house, house.views(), datetime.now(UTC) - LATER)) == []
        found = list(find_abandoned(house, house.views(), datetime.now(UTC) + LATER))
        assert [(each.run, each.calls) for each in found] == [("ext-late", 1), ("ext-open", 1)]
        client_at(proxy, "ext-late").chat.completions.create(model=MODEL, messages=ASK)
        assert end_abandoned(house, found, "test") == ("ext-open",)
        assert types_of(house, "ext-open") == ["RunStarted", "ModelCalled", "RunMissing"]
        assert reward("ext-open") == 409
        with pytest.raises(openai.ConflictError, match="has ended"):
            client_at(proxy, "ext-open").chat.completions.create(model=MODEL, messages=ASK)
        assert reward("ext-late") == 200


def test_the_command_shows_first_and_records_then(
    empty_house: House,
    empty_database: Database,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with model_server(lambda _: "four") as upstream, proxied(empty_house, upstream) as proxy:
        client_at(proxy, "ext-open").chat.completions.create(model=MODEL, messages=ASK)
    monkeypatch.setenv("FLYWHEEL_DATABASE_URL", empty_database.app_url)
    monkeypatch.setenv("FLYWHEEL_OWNER_URL", empty_database.owner_url)

    def abandon(*options: str) -> dict[str, Any]:
        assert run_command(["runs", "abandon", "--json", *options]) == 0
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        return found

    assert abandon() == {"abandoned": [], "missing": []}
    shown = abandon("--hours", "0", "--dry-run")
    assert ([each["run"] for each in shown["abandoned"]], shown["missing"]) == (["ext-open"], [])
    assert abandon("--hours", "0", "--yes")["missing"] == ["ext-open"]
    assert abandon("--hours", "0", "--yes") == {"abandoned": [], "missing": []}


def serve(project: Project) -> tuple[Any, str]:
    """`flywheel serve` as a process, and its address."""
    said = project.folder / "said"
    said.touch()
    before = len(said.read_text())
    child = project.begun(["serve", "--port", "0"])
    until = time.monotonic() + 120
    while (found := re.search(r"http://[0-9.]+:[0-9]+", said.read_text()[before:])) is None:
        assert child.poll() is None, project.said()
        assert time.monotonic() < until
        time.sleep(0.05)
    return child, found[0]


@pytest.mark.timeout(300)
@pytest.mark.costly("two processes of `flywheel serve`, of which one is killed in the middle of a stream")
def test_a_proxy_killed_in_the_middle_of_a_stream_leaves_a_whole_call_or_none(
    empty_database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = threading.Event()

    def answer(asked: Asked) -> Reply:
        def whole() -> Any:
            yield f"data: {json.dumps(part('fo'))}\n\n"
            if "wait" in asked.text:
                release.wait(60)
            for each in (part("ur", "stop"), USAGE):
                yield f"data: {json.dumps(each)}\n\n"
            yield "data: [DONE]\n\n"

        return StreamingResponse(whole(), media_type="text/event-stream")

    with model_server(answer) as upstream, project_on(empty_database, tmp_path) as project:
        monkeypatch.setenv("FLYWHEEL_MODEL", MODEL)
        monkeypatch.setenv("FLYWHEEL_MODEL_URL", upstream.url)
        child, address = serve(project)
        house, token = project.house, issue(project.house.store, "agent", "test")

        def stream(words: str) -> Any:
            client = openai.OpenAI(base_url=f"{address}/ext-1/v1", api_key=token, max_retries=0)
            messages: Any = [{"role": "user", "content": words}]
            return client.chat.completions.create(model=MODEL, messages=messages, stream=True)

        assert "".join(each.choices[0].delta.content or "" for each in stream("2 + 2?")) == "four"
        cut = stream("wait, 2 + 2?")
        assert next(iter(cut)).choices[0].delta.content == "fo"
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        with pytest.raises(Exception, match=r".*"):
            list(cut)
        release.set()
        (call,) = calls_of(house, "ext-1")
        assert completion_of(house, call)["samples"][0]["text"] == "four"
        child, address = serve(project)
        assert "".join(each.choices[0].delta.content or "" for each in stream("again?")) == "four"
        assert [each.index for each in calls_of(house, "ext-1")] == [0, 1]
        (found,) = find_abandoned(house, house.views(), datetime.now(UTC) + LATER)
        end_abandoned(house, [found], "test")
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        assert project.events(RewardGraded, RunFinished) == []
        assert [type(each) for each in project.events(RunStarted, ModelCalled, RunMissing)] == [
            RunStarted,
            ModelCalled,
            ModelCalled,
            RunMissing,
        ]
        the_log_is_whole(project)
