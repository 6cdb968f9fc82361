"""An agent of a public framework joins by the address of its model alone, and the capture proxy records its calls.

`FLYWHEEL_TEST_FRAMEWORK` names a Python that has the framework.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from typing import Any, Final

import httpx2
import pytest
from starlette.responses import JSONResponse

from eventlog.blobs.conversations import get_messages
from eventlog.events import RewardGraded, StepTaken
from tests.integration.test_capture_proxy import calls_of, completion_of, served
from tests.model_server import Asked, Reply, chat_completion

__all__ = ["served"]

PYTHON: Final = os.environ.get("FLYWHEEL_TEST_FRAMEWORK")
pytestmark = [
    pytest.mark.skipif(PYTHON is None, reason="FLYWHEEL_TEST_FRAMEWORK names no Python that has the framework"),
    pytest.mark.timeout(120),
]

AGENT: Final = '''
from pydantic_ai import Agent

agent = Agent("openai-chat:policy", instructions="Answer by the weather station.")


@agent.tool_plain
def weather(town: str) -> str:
    """The weather of a town."""
    return f"it rains in {town}"


print(agent.run_sync("Do I need an umbrella in Bern?").output)
'''


def answer(asked: Asked) -> Reply:
    """A model that asks for the weather, and then says what it was told."""
    if any(message["role"] == "tool" for message in asked.body["messages"]):
        return "Yes, it rains."
    tool = {"id": "t1", "type": "function", "function": {"name": "weather", "arguments": '{"town": "Bern"}'}}
    said = {"role": "assistant", "content": None, "tool_calls": [tool]}
    return JSONResponse(chat_completion(asked.body, "", message=said, finish_reason="tool_calls"))


def test_an_unchanged_agent_of_a_framework_is_recorded_and_its_run_takes_a_reward(served: Callable[..., Any]) -> None:
    (address, token, house), _ = served(answer, model_api="openai")
    own = {"OPENAI_BASE_URL": f"{address}/ext-1/v1", "OPENAI_API_KEY": token}
    assert PYTHON is not None
    done = subprocess.run([PYTHON, "-c", AGENT], env=own, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout.strip()) == (0, "Yes, it rains."), done.stderr
    reward = {"score": 1, "passed": True}
    told = {"Authorization": f"Bearer {token}"}
    assert httpx2.post(f"{address}/v1/runs/ext-1/reward", json=reward, headers=told).is_success
    first, second = calls_of(house, "ext-1")
    assert completion_of(house, first)["samples"][0]["tool_calls"][0]["function"]["name"] == "weather"
    assert completion_of(house, second)["samples"][0]["text"] == "Yes, it rains."
    roles = [each["role"] for each in get_messages(house.blobs, second.messages)]
    assert roles == ["system", "user", "assistant", "tool"]
    events = [each.event for each in house.store.read(stream="run/ext-1")]
    assert [each.action for each in events if isinstance(each, StepTaken)] == ["weather"]
    assert [each.passed for each in events if isinstance(each, RewardGraded)] == [True]
