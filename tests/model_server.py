"""A model server of our own on a socket: the chat completions of OpenAI and the messages of Anthropic."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from api.ports import listen

LOGPROB = -0.25
PATHS = ("chat/completions", "messages", "load_lora_adapter", "unload_lora_adapter")


@dataclass(frozen=True)
class Asked:
    """A request as it came in."""

    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]

    @property
    def text(self) -> str:
        """All texts of its messages."""
        system = self.body.get("system")
        return "\n".join([*([system] if system else []), *(_text(m["content"]) for m in self.body["messages"])])


Reply = str | Response
Answering = Callable[[Asked], Reply]


@dataclass
class ModelServer:
    """A running server: its base address, what it was asked, and what it says next."""

    url: str
    answer: Answering
    asked: list[Asked] = field(default_factory=list)
    loaded: dict[str, str] = field(default_factory=dict)
    """Adapters by name, with their folders; loaded and unloaded as vLLM does it."""

    def reply(self, asked: Asked) -> Response:
        self.asked.append(asked)
        if asked.path.endswith("_lora_adapter"):
            return self._adapter(asked)
        if "+" in asked.body["model"] and asked.body["model"] not in self.loaded:
            return JSONResponse({"error": {"message": f"{asked.body['model']} does not exist"}}, 404)
        said = self.answer(asked)
        if isinstance(said, Response):
            return said
        made = chat_completion if asked.path.endswith("/chat/completions") else message
        return JSONResponse(made(asked.body, said))

    def models(self, _request: Request) -> Response:
        return JSONResponse({"object": "list", "data": [{"id": name} for name in ("m1", *self.loaded)]})

    def _adapter(self, asked: Asked) -> Response:
        name = asked.body["lora_name"]
        if asked.path.endswith("/unload_lora_adapter"):
            if self.loaded.pop(name, None) is None:
                return JSONResponse({"error": {"message": f"The lora adapter '{name}' cannot be found."}}, 404)
            return PlainTextResponse(f"Success: LoRA adapter '{name}' removed successfully.")
        return self.load_adapter(name, asked.body["lora_path"])

    def load_adapter(self, name: str, folder: str) -> Response:
        if name in self.loaded:
            return JSONResponse({"error": {"message": f"The lora adapter '{name}' has already been loaded."}}, 400)
        self.loaded[name] = folder
        return PlainTextResponse(f"Success: LoRA adapter '{name}' added successfully.")


def _text(content: str | list[dict[str, Any]]) -> str:
    return content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)


def chat_completion(body: Mapping[str, Any], text: str, **changes: Any) -> dict[str, Any]:
    """The answer of a chat completion; tokens are characters, as ids their code points."""
    choices = []
    for index in range(body.get("n", 1)):
        choice: dict[str, Any] = {
            "index": index,
            "message": {"role": "assistant", "content": text, "refusal": None},
            "finish_reason": "stop",
            "logprobs": None,
        }
        if body.get("logprobs"):
            content: list[dict[str, Any]] = [
                {"token": sign, "logprob": LOGPROB, "bytes": None, "top_logprobs": []} for sign in text
            ]
            choice["logprobs"] = {"content": content, "refusal": None}
        if body.get("return_token_ids"):
            choice["token_ids"] = [ord(sign) for sign in text]
        choices.append(choice | changes)
    usage = {"prompt_tokens": 11, "completion_tokens": len(text), "total_tokens": 11 + len(text)}
    served = {"id": "c1", "object": "chat.completion", "created": 1, "model": f"{body['model']}-served"}
    ids = {"prompt_token_ids": [1, 2, 3]} if body.get("return_token_ids") else {}
    return {**served, "choices": choices[::-1], "usage": usage, **ids}


def message(body: Mapping[str, Any], text: str, **changes: Any) -> dict[str, Any]:
    """The answer of the messages API; where a tool must be called, the text is its input."""
    block: dict[str, Any] = {"type": "text", "text": text}
    if body.get("tool_choice"):
        block = {"type": "tool_use", "id": "t1", "name": body["tool_choice"]["name"], "input": json.loads(text)}
    return {
        "id": "m1",
        "type": "message",
        "role": "assistant",
        "model": f"{body['model']}-served",
        "content": [block],
        "stop_reason": "tool_use" if body.get("tool_choice") else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 7, "cache_read_input_tokens": 4, "output_tokens": len(text)},
    } | changes


@contextmanager
def model_server(answer: Answering) -> Iterator[ModelServer]:
    """Serve until the block ends."""
    listening = listen("127.0.0.1", 0)
    running = ModelServer(f"http://127.0.0.1:{listening.getsockname()[1]}/v1", answer)

    async def ask(request: Request) -> Response:
        return running.reply(Asked(request.url.path, dict(request.headers), await request.json()))

    routes = [Route(f"/v1/{path}", ask, methods=["POST"]) for path in PATHS]
    routes.append(Route("/v1/models", running.models))
    server = uvicorn.Server(uvicorn.Config(Starlette(routes=routes), log_level="critical", lifespan="off"))
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.005)
    try:
        yield running
    finally:
        server.should_exit = True
        thread.join()
        listening.close()
