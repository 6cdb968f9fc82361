"""The proxy killed while it forwards streams: what the log then holds of the runs that were under way."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import httpx2

from eventlog.events import ModelCalled, RewardGraded, RunMissing
from eventlog.postgres import PostgresStore

STREAMS = 16


def cut_streams(
    url_of: Callable[[str], str], key: str, body: Mapping[str, object], proxy: int
) -> tuple[list[str], int]:
    """Kill the proxy once every caller has the first part of a stream. Returns the runs, and how many streams ended."""
    runs = [f"ext-killed-{place}" for place in range(STREAMS)]
    begun = Barrier(STREAMS, action=lambda: os.kill(proxy, signal.SIGKILL))

    def read(run: str) -> bool:
        said = b""
        with httpx2.Client(timeout=60, headers={"Authorization": f"Bearer {key}"}) as client:
            try:
                with client.stream("POST", url_of(run), json={**body, "stream": True}) as answer:
                    for part in answer.iter_bytes():
                        if not said:
                            begun.wait()
                        said += part
            except httpx2.HTTPError:
                return False
        return b"[DONE]" in said

    with ThreadPoolExecutor(STREAMS) as callers:
        return runs, sum(callers.map(read, runs))


def what_became(store: PostgresStore, runs: Sequence[str]) -> dict[str, float]:
    """How the log has runs after `flywheel runs abandon`: each has to be missing, and none may have a reward."""
    found = [each.event for run in runs for each in store.read(stream=f"run/{run}")]
    return {
        "streams under way when the proxy was killed": len(runs),
        "of them, runs that are not recorded as missing": len(runs)
        - sum(isinstance(each, RunMissing) for each in found),
        "of them, runs with a reward": sum(isinstance(each, RewardGraded) for each in found),
        "of them, calls that were recorded without their end": sum(isinstance(each, ModelCalled) for each in found),
    }


def stream_of(answer: Mapping[str, object], text: str, parts: int) -> list[bytes]:
    """The events of a streamed chat completion: its text in so many parts, its end, and its usage."""
    size = -(-len(text) // parts)
    head = {name: answer[name] for name in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
    choices: list[object] = [
        {"index": 0, "delta": {"content": text[first : first + size]}, "finish_reason": None, "logprobs": None}
        for first in range(0, len(text), size)
    ]
    choices.append({"index": 0, "delta": {}, "finish_reason": "stop", "logprobs": None})
    events = [{**head, "choices": [each]} for each in choices]
    events.append({**head, "choices": [], "usage": answer["usage"]})
    return [*(f"data: {json.dumps(each)}\n\n".encode() for each in events), b"data: [DONE]\n\n"]
