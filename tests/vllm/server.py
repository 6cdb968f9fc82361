"""A real vLLM server on CPUs, for a base of these tests."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import httpx2

from eventlog.weights_folder import Base
from tests.tiny import make_base

NAME: Final = "tiny"
PATIENCE_S: Final = 1500
"""It imports and compiles for minutes on two cores."""
_LORA_RANK: Final = 8


def wide_base(folder: Path) -> Base:
    """A Llama whose heads are as wide as vLLM's attention on CPUs wants them."""
    return make_base(
        folder, "llama", vocabulary=400, hidden=128, layers=2, heads=4, key_heads=2, inner=256, longest=256
    )


def command(python: str, base: Path, port: int) -> list[str]:
    """The command of a server in float32 that loads adapters and gives the logprobs of what it draws from."""
    words = ["--host", "127.0.0.1", "--port", str(port), "--model", str(base), "--served-model-name", NAME]
    lora = ["--enable-lora", "--max-lora-rank", str(_LORA_RANK), "--logprobs-mode", "processed_logprobs"]
    sizes = ["--dtype", "float32", "--max-model-len", "256", "--max-num-seqs", "16", "--enforce-eager"]
    return [python, "-m", "vllm.entrypoints.openai.api_server", *words, *lora, *sizes]


def environment() -> dict[str, str]:
    """The variables of such a server."""
    own = {"VLLM_TARGET_DEVICE": "cpu", "TORCHDYNAMO_DISABLE": "1", "VLLM_CPU_KVCACHE_SPACE": "1"}
    further = {"VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True", "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1"}
    return {**os.environ, **own, **further}


@contextmanager
def running(python: str, base: Path) -> Iterator[str]:
    """The base address of a server, once it answers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(command(python, base, port), env=environment())
    try:
        await_answer(f"http://127.0.0.1:{port}", process)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def await_answer(url: str, process: subprocess.Popen[bytes]) -> None:
    """Wait until the server answers. Raises RuntimeError if it ended, or took too long."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        if process.poll() is not None:
            raise RuntimeError(f"the server ended with {process.returncode}")
        try:
            if httpx2.get(f"{url}/health", trust_env=False).is_success:
                return
        except httpx2.HTTPError:
            pass
        time.sleep(1)
    raise RuntimeError(f"the server did not answer within {PATIENCE_S} s")
