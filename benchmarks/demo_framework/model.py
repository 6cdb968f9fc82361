"""A scripted model that calls tools as OpenAI's API does: it follows a link that its notes quote, else it guesses."""

from __future__ import annotations

import json
import re

from starlette.responses import JSONResponse

from tests.model_server import Asked, Reply


def choose_tool(asked: Asked) -> Reply:
    """The next call of a tool, from the last page; the end where nothing is left to follow."""
    messages = asked.body["messages"]
    page, notes = _text(messages[-1]["content"]), _text(messages[0]["content"])
    names: list[str] = re.findall(r'<a href="[^"]*">(.*?)</a>', page)
    if "<button>Buy" in page:
        return _call("buy", {})
    if not names:
        return "It is done."
    quoted = [name for name in names if f"'{name}'" in notes]
    guessed = names[asked.body.get("seed", 0) % len(names) if "About us" in names else 0]
    return _call("follow", {"link": quoted[0] if quoted else guessed})


def _text(content: object) -> str:
    parts = content if isinstance(content, list) else [{"text": content or ""}]
    return "\n".join(str(part.get("text", "")) for part in parts)


def _call(tool: str, arguments: dict[str, str]) -> JSONResponse:
    called = {"id": "call-1", "type": "function", "function": {"name": tool, "arguments": json.dumps(arguments)}}
    message = {"role": "assistant", "content": None, "tool_calls": [called]}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    return JSONResponse(
        {"id": "c", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice], "usage": usage}
    )
