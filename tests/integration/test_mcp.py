"""The tools for agents, called over stdio by the protocol's own client, and in the process."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from api.house import House
from api.mcp.answers import MOST_TEXT, answer_dataset, answer_run
from api.mcp.server import create_server
from eventlog.store import Append
from tests.conftest import Database
from tests.golden.test_golden_samples import sample

SEALED = "eval-1__challenger__marketplace.phone_reveal__seed10000__r0"
RUN = "marketplace-1__marketplace.phone_reveal__seed0__s0"
TOOLS = {
    "list_failure_clusters",
    "get_champion",
    "explain_verdict",
    "query_dataset",
    "list_lessons",
    "list_runs",
    "show_run",
}


def talk(house: House, use: Callable[[Client], Awaitable[Any]]) -> Any:
    async def connected() -> Any:
        async with Client(create_server(house)) as client:
            return await use(client)

    return anyio.run(connected)


def call(house: House, tool: str, **arguments: object) -> Any:
    found = talk(house, lambda client: client.call_tool(tool, arguments))
    assert not found.is_error, found.content[0].text
    return json.loads(found.content[0].text)


def refusal(house: House, tool: str, **arguments: object) -> str:
    found = talk(house, lambda client: client.call_tool(tool, arguments))
    assert found.is_error
    return str(found.content[0].text)


def test_an_agent_lists_and_calls_the_tools_over_stdio(database: Database) -> None:
    root = str(Path(__file__).parents[2])
    command = [sys.executable, "-c", "from api.cli.main import main; main()", "mcp"]
    env = {
        "FLYWHEEL_DATABASE_URL": database.app_url,
        "FLYWHEEL_OWNER_URL": database.owner_url,
        "FLYWHEEL_KEYS": str(database.keys),
        "PYTHONPATH": root,
        "PATH": os.environ["PATH"],
    }
    server = StdioServerParameters(command=command[0], args=command[1:], env=env, cwd=root)

    async def use() -> tuple[Any, Any, Any]:
        with open(os.devnull, "w") as nowhere:  # noqa: PTH123 the child writes nothing of interest
            async with Client(stdio_client(server, errlog=nowhere)) as client:
                tools = await client.list_tools()
                champion = await client.call_tool("get_champion", {})
                wrong = await client.call_tool("show_run", {"run": "nobody"})
                return tools.tools, champion, wrong

    tools, champion, wrong = anyio.run(use)
    assert {tool.name for tool in tools} == TOOLS
    assert all(tool.annotations.read_only_hint for tool in tools)
    assert json.loads(champion.content[0].text)["champion"]["name"] == "base@0"
    assert wrong.is_error
    assert "nobody" in wrong.content[0].text
    assert "flywheel runs list" in wrong.content[0].text


def test_every_tool_answers_on_a_log_with_something_of_everything(house: House) -> None:
    head = house.store.head()
    clusters = call(house, "list_failure_clusters")["clusters"]
    assert clusters[0]["count"] >= clusters[-1]["count"] > 0
    assert not any("eval-" in run for each in clusters for run in each["examples"])
    assert call(house, "explain_verdict")["evaluations"][0]["evaluation"] == "eval-1"
    assert {each["status"] for each in call(house, "list_lessons", status=None)["lessons"]}
    assert len(call(house, "list_runs", limit=3)["runs"]) == 3
    shown = call(house, "show_run", run=RUN)
    assert shown["steps"]
    assert isinstance(shown["grades"][0]["passed"], bool)
    listed = call(house, "query_dataset")["datasets"]
    assert listed
    assert call(house, "query_dataset", digest=listed[0]["dataset"])["dataset"]["rows"] == listed[0]["rows"]
    assert house.store.head() == head


def test_no_tool_tells_what_sealed_runs_earned(house: House) -> None:
    shown = call(house, "show_run", run=SEALED)
    assert shown["run"]["reward"] is None
    assert set(shown) == {"run", "note"}
    told = call(house, "explain_verdict", evaluation="eval-1")
    assert (told["decision"], told["reasons"], "looks" in told) == ("promote", ["every check is met"], False)
    assert set(told["told"]) == {"decision", "reasons", "champion", "challenger", "ledger", "visible instances"}
    assert shown["run"]["status"] == "ended"
    halted = call(house, "list_runs", evaluation="eval-1", status="halted", limit=50)["runs"]
    assert not any(each["is_sealed"] for each in halted)
    for result in ("passed", "failed"):
        runs = call(house, "list_runs", evaluation="eval-1", result=result)["runs"]
        assert not any(each["is_sealed"] for each in runs)
    every = call(house, "list_runs", evaluation="eval-1", limit=50)["runs"]
    assert any(each["is_sealed"] for each in every)
    assert all(each["reward"] is None for each in every if each["is_sealed"])


def test_answers_are_bounded(empty_house: House) -> None:
    started = sample("RunStarted", run="ext-long", arm=None).model_dump(mode="json")
    started["spec"]["spec_id"] = "ext-long"
    started["task_spec"]["instruction"] = "x" * 5_000
    first = sample(
        "RunStarted", **{name: value for name, value in started.items() if name not in {"type", "schema_version"}}
    )
    steps = [sample("StepTaken", run="ext-long", index=index) for index in range(150)]
    empty_house.store.append([Append("run/ext-long", (first, *steps), "test")])
    found = answer_run(empty_house, "ext-long")
    assert len(found["instruction"]) < MOST_TEXT + 100
    assert (len(found["steps"]), found["steps_not_shown"]) == (100, 50)
    assert len(json.dumps(found)) < 60_000
    assert answer_dataset(empty_house, None, 5, None)["datasets"] == []


@pytest.mark.parametrize(
    ("tool", "arguments", "says"),
    [
        ("list_runs", {"limit": 51}, "less than or equal to 50"),
        ("list_runs", {"status": "asleep"}, "started"),
        ("query_dataset", {"digest": "abc"}, "dataset"),
        ("explain_verdict", {"evaluation": "eval-99"}, "eval-99"),
        ("list_lessons", {"kind": "spell"}, "rewrite"),
    ],
)
def test_what_is_asked_wrongly_is_answered_with_what_was_expected(
    house: House, tool: str, arguments: dict[str, object], says: str
) -> None:
    assert says in refusal(house, tool, **arguments)
