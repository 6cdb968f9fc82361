"""What tools gave an agent before the capture proxy: steps of its run, read from the conversation of its next call."""

from __future__ import annotations

from typing import Any

import anthropic
import httpx2

from api.house import House
from eventlog.events import RunFinished, StepTaken
from tests.integration.test_capture_proxy import MODEL, calls_of, client_at, proxied
from tests.model_server import model_server

USER: dict[str, Any] = {"role": "user", "content": "How warm is it in Oslo and in Rome?"}
KEYS = ("oslo", "rome")
ASKS: dict[str, Any] = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {"id": key, "type": "function", "function": {"name": "get-weather", "arguments": f'{{"city": "{key}"}}'}}
        for key in KEYS
    ],
}
TOLD: list[dict[str, Any]] = [{"role": "tool", "tool_call_id": key, "content": f"{key}: 4"} for key in KEYS]


def steps_of(house: House, run: str) -> list[StepTaken]:
    return [each.event for each in house.store.read(stream=f"run/{run}") if isinstance(each.event, StepTaken)]


def told(house: House, steps: list[StepTaken]) -> list[tuple[int, str, str, str, str]]:
    return [
        (
            step.index,
            step.action,
            step.outcome,
            "" if step.argument is None else house.blobs.get(step.argument).body.decode(),
            "" if step.observation is None else house.blobs.get(step.observation).body.decode(),
        )
        for step in steps
    ]


def test_results_of_tools_are_steps_once_however_often_they_are_told(empty_house: House) -> None:
    def ask(*messages: dict[str, Any]) -> None:
        client.chat.completions.create(model=MODEL, messages=list(messages))  # type: ignore[arg-type]

    again: list[dict[str, Any]] = [
        {**ASKS, "tool_calls": [{**ASKS["tool_calls"][0], "id": "again"}]},
        {"role": "tool", "tool_call_id": "again", "content": [{"type": "text", "text": "oslo: 5"}]},
    ]
    with model_server(lambda _: "four") as upstream, proxied(empty_house, upstream) as proxy:
        client = client_at(proxy, "ext-tools")
        ask(USER)
        ask(USER, ASKS, TOLD[0])
        ask(USER, ASKS, *TOLD)
        ask(USER, ASKS, *TOLD)  # its answer was lost
    with model_server(lambda _: "four") as upstream, proxied(empty_house, upstream, proxy[1]) as later:
        client = client_at(later, "ext-tools")
        ask(USER, ASKS, *TOLD)
        ask(USER, ASKS, *TOLD, *again)
    assert told(empty_house, steps_of(empty_house, "ext-tools")) == [
        (0, "get_weather", "ok", '{"city": "oslo"}', "oslo: 4"),
        (1, "get_weather", "ok", '{"city": "rome"}', "rome: 4"),
        (2, "get_weather", "ok", '{"city": "oslo"}', "oslo: 5"),
    ]
    assert [call.index for call in calls_of(empty_house, "ext-tools")] == list(range(6))


def test_examples_in_a_first_call_are_no_steps_and_a_reward_counts_those_that_are(empty_house: House) -> None:
    with model_server(lambda _: "four") as upstream, proxied(empty_house, upstream) as proxy:
        client = client_at(proxy, "ext-shown")
        client.chat.completions.create(model=MODEL, messages=[USER, ASKS, *TOLD])  # type: ignore[list-item]
        assert steps_of(empty_house, "ext-shown") == []
        client.chat.completions.create(model=MODEL, messages=[USER, ASKS, *TOLD])  # type: ignore[list-item]
        address, token, _ = proxy
        headers = {"Authorization": f"Bearer {token}"}
        body = {"score": 1, "passed": True}
        answer = httpx2.post(f"{address}/v1/runs/ext-shown/reward", json=body, headers=headers)
        assert answer.is_success, answer.text
    events = [each.event for each in empty_house.store.read(stream="run/ext-shown")]
    (ended,) = (event for event in events if isinstance(event, RunFinished))
    assert (ended.usage.actions, len(steps_of(empty_house, "ext-shown"))) == (2, 2)


def test_what_anthropics_client_tells_of_tools_are_steps_and_an_error_is_one(empty_house: House) -> None:
    used = [{"type": "tool_use", "id": key, "name": "weather", "input": {"city": key}} for key in KEYS]
    given: list[dict[str, Any]] = [
        {"type": "tool_result", "tool_use_id": "oslo", "content": [{"type": "text", "text": "4"}]},
        {"type": "tool_result", "tool_use_id": "rome", "content": "no such city", "is_error": True},
        {"type": "text", "text": "Go on."},
    ]
    with (
        model_server(lambda _: "four") as upstream,
        proxied(empty_house, upstream, model_api="anthropic") as (address, token, house),
        anthropic.Anthropic(base_url=f"{address}/ext-claude", api_key=token, max_retries=0) as client,
    ):
        spoken: list[Any] = [USER, {"role": "assistant", "content": used}, {"role": "user", "content": given}]
        for many in (1, 3):
            client.messages.create(model=MODEL, max_tokens=9, messages=spoken[:many])
    assert told(house, steps_of(house, "ext-claude")) == [
        (0, "weather", "ok", '{"city": "oslo"}', "4"),
        (1, "weather", "server_error", '{"city": "rome"}', "no such city"),
    ]
