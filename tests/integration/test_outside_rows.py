"""Runs of an agent outside from the proxy to training rows: calls, reward, and the query that takes them or not."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import openai
import pytest

from api.cli.main import run_command
from api.datasets.freeze import build_dataset
from api.house import House
from eventlog.events import GrpoQuery, ModelCalled, Query, SftQuery
from tests.conftest import Database
from tests.integration.test_capture_proxy import MODEL, Proxy, proxied
from tests.model_server import LOGPROB, model_server

TOKENIZER, TEMPLATE = "a" * 64, "b" * 64
ANSWERS = {"ext-1": ("yes", "done"), "ext-2": ("no", "over")}


@pytest.fixture
def proxy(empty_house: House) -> Iterator[Proxy]:
    """A proxy through which two runs of one instance were played, two calls each, of which one passed."""
    said = iter([each for pair in zip(*ANSWERS.values(), strict=True) for each in pair])
    tokens: dict[str, Any] = {"model_tokenizer": TOKENIZER, "model_chat_template": TEMPLATE, "model_uncut": True}
    with model_server(lambda _: next(said)) as upstream, proxied(empty_house, upstream, **tokens) as found:
        address, token, _ = found
        for turn in range(2):
            for run in ANSWERS:
                client = openai.OpenAI(base_url=f"{address}/{run}/v1", api_key=token, max_retries=0)
                messages: Any = [{"role": "user", "content": f"Shall I? {turn}"}]
                client.chat.completions.create(
                    model=MODEL, messages=messages, extra_headers={"X-Flywheel-Group": "ext-g"}
                )
        for run, score in zip(ANSWERS, (1, 0), strict=True):
            httpx2.post(
                f"{address}/v1/runs/{run}/reward",
                json={"score": score, "passed": bool(score)},
                headers={"Authorization": f"Bearer {token}"},
            ).raise_for_status()
        yield found


def test_a_query_takes_the_runs_that_the_tokens_it_names_began(proxy: Proxy) -> None:
    house = proxy[2]

    def rows(query: Query) -> tuple[list[dict[str, Any]], dict[str, int]]:
        made = build_dataset(house.store, house.blobs, house.views(), query)
        return made.rows.to_dicts(), {item.reason: item.runs for item in made.refused}

    for outside in ("none", ("other",)):
        assert rows(GrpoQuery(reward="score", outside=outside)) == ([], {"outside": 2})
        assert rows(SftQuery(runs="policy", outside=outside)) == ([], {"outside": 2})
    assert rows(SftQuery(outside="none"))[1] == {"outside": 2}
    compared, _ = rows(GrpoQuery(reward="score", outside=("agent", "other")))
    assert compared == rows(GrpoQuery(reward="score"))[0]
    assert [(row["run"], row["call"], row["advantage"] > 0) for row in compared] == [
        ("ext-1", 0, True),
        ("ext-1", 1, True),
        ("ext-2", 0, False),
        ("ext-2", 1, False),
    ]
    assert [row["completion_ids"] for row in compared] == [
        [ord(sign) for sign in text] for texts in ANSWERS.values() for text in texts
    ]
    assert {value for row in compared for value in row["logprobs"]} == {LOGPROB}
    imitated, refused = rows(SftQuery(runs="policy", outside=("agent",)))
    assert ({row["run"] for row in imitated}, len(imitated), refused) == ({"ext-1"}, 2, {"below_score": 1})


def test_a_call_for_several_answers_is_kept_whole_and_its_run_is_refused_by_name(proxy: Proxy) -> None:
    address, token, house = proxy
    tokens: dict[str, Any] = {"model_tokenizer": TOKENIZER, "model_chat_template": TEMPLATE, "model_uncut": True}
    with model_server(lambda _: "maybe") as upstream, proxied(house, upstream, token, **tokens) as (other, *_):
        client = openai.OpenAI(base_url=f"{other}/ext-3/v1", api_key=token, max_retries=0)
        answer = client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "Shall I?"}], n=2)
    assert [choice.message.content for choice in answer.choices] == ["maybe", "maybe"]
    (called,) = (each.event for each in house.store.read(stream="run/ext-3") if isinstance(each.event, ModelCalled))
    samples = json.loads(house.blobs.get(called.completion).body)["samples"]
    assert [(each["text"], len(each["token_ids"]), len(each["logprobs"])) for each in samples] == [("maybe", 5, 5)] * 2
    reward = {"score": 1, "passed": True}
    url, headers = f"{address}/v1/runs/ext-3/reward", {"Authorization": f"Bearer {token}"}
    httpx2.post(url, json=reward, headers=headers).raise_for_status()
    made = build_dataset(house.store, house.blobs, house.views(), SftQuery(runs="policy", outside=("agent",)))
    assert {item.reason: item.runs for item in made.refused} == {"below_score": 1, "several_samples": 1}


def test_the_command_takes_none_unless_it_is_told_and_shows_them_beforehand(
    proxy: Proxy, empty_database: Database, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FLYWHEEL_DATABASE_URL", empty_database.app_url)
    monkeypatch.setenv("FLYWHEEL_OWNER_URL", empty_database.owner_url)
    monkeypatch.setenv("FLYWHEEL_KEYS", str(empty_database.keys))

    def flywheel(*arguments: str, code: int = 0) -> tuple[str, str]:
        assert run_command(list(arguments)) == code
        printed = capsys.readouterr()
        return printed.out, printed.err

    build: Callable[..., tuple[str, str]] = lambda *more, code=0: flywheel(  # noqa: E731
        "dataset", "build", "grpo", "--reward", "score", *more, code=code
    )
    assert "2 outside" in build(code=1)[1]
    shown = json.loads(build("--outside", "agent", "--dry-run", "--json")[0])
    assert (shown["rows"], shown["outside"], shown["refused"]) == (4, ["ext-1", "ext-2"], {})
    assert "2 of 2 runs with several calls are split (100%)" in build("--outside", "agent", "--dry-run")[1]
    assert json.loads(flywheel("dataset", "list", "--json")[0]) == []
    frozen = json.loads(build("--outside", "agent", "--json")[0])
    assert (frozen["dataset"], frozen["query"]["outside"]) == (shown["dataset"], ["agent"])
    assert (
        "| runs with several calls, and how many are split | 2, 2 |" in flywheel("dataset", "card", shown["dataset"])[0]
    )
    assert (
        "expected none, all, or names of tokens alone" in build("--outside", "none", "--outside", "agent", code=64)[1]
    )
    assert proxy[1]


def test_older_queries_keep_their_form() -> None:
    assert "outside" not in GrpoQuery().model_dump()
    assert GrpoQuery(outside="none").model_dump()["outside"] == "none"
    with pytest.raises(ValueError, match="told apart by token"):
        SftQuery(outside=("agent",))
