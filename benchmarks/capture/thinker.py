"""A model server that thinks for some milliseconds: `python -m benchmarks.capture.thinker 200`."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator

import anyio
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from api.ports import listen

from .killed import stream_of

TEXT = "The answer is four."
PARTS = 4


def main() -> None:
    """Listen on a free port, print the address, and serve until killed."""
    think_s = int(sys.argv[1]) / 1000

    async def chat(request: Request) -> Response:
        body = await request.json()
        if body.get("stream"):
            return StreamingResponse(_spread(body, think_s), media_type="text/event-stream")
        await anyio.sleep(think_s)
        return JSONResponse(_answer(body))

    listening = listen("127.0.0.1", 0)
    print(f"http://127.0.0.1:{listening.getsockname()[1]}/v1", flush=True)
    app = Starlette(routes=[Route("/v1/chat/completions", chat, methods=["POST"])])
    uvicorn.Server(uvicorn.Config(app, log_level="critical", access_log=False)).run(sockets=[listening])


async def _spread(body: dict[str, object], think_s: float) -> AsyncIterator[bytes]:
    """A stream whose first part comes at once and whose last comes when it has thought."""
    for each in stream_of(_answer(body), TEXT, PARTS):
        yield each
        await anyio.sleep(think_s / PARTS)


def _answer(body: dict[str, object]) -> dict[str, object]:
    tokens: list[dict[str, object]] = [
        {"token": sign, "logprob": -0.25, "bytes": None, "top_logprobs": []} for sign in TEXT.split()
    ]
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": TEXT, "refusal": None},
        "finish_reason": "stop",
        "logprobs": {"content": tokens, "refusal": None} if body.get("logprobs") else None,
    }
    usage = {"prompt_tokens": 12, "completion_tokens": len(tokens), "total_tokens": 12 + len(tokens)}
    return {
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "model": body["model"],
        "choices": [choice],
        "usage": usage,
    }


if __name__ == "__main__":
    main()
