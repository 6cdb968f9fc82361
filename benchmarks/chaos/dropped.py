"""A TCP proxy that cuts connections at random points."""

from __future__ import annotations

import asyncio
import multiprocessing
import random
import socket
import struct
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sqlalchemy import make_url

from api.embedded.layout import PORT

_CHUNK = 65_536
_RESET = struct.pack("ii", 1, 0)
"""SO_LINGER on with 0 seconds: closing the socket sends a reset."""


@contextmanager
def proxied(url: str, *, mean_life_s: float, seed: int) -> Iterator[tuple[str, Path]]:
    """Run a TCP proxy before the server of a URL; yield the proxied URL, and the file that counts its cuts.

    A connection lives `mean_life_s` on average, then it is reset in the middle of a transfer.
    """
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(64)
    port = listener.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="flywheel-proxy-") as folder:
        count = Path(folder) / "cuts"
        target = str(Path(str(make_url(url).query["host"])) / f".s.PGSQL.{PORT}")
        context = multiprocessing.get_context("fork")
        process = context.Process(target=_serve, args=(listener, target, mean_life_s, seed, count), daemon=True)
        process.start()
        listener.close()
        try:
            through = make_url(url).set(host="127.0.0.1", port=port).difference_update_query(("host", "port"))
            yield through.render_as_string(hide_password=False), count
        finally:
            process.kill()
            process.join()


def cuts(count: Path) -> int:
    """Number of connections cut so far."""
    return count.stat().st_size if count.exists() else 0


def _serve(listener: socket.socket, target: str, mean_life_s: float, seed: int, count: Path) -> None:
    draw = random.Random(seed)  # noqa: S311 a seeded choice, not a secret

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_unix_connection(target)
        ends = time.monotonic() + draw.expovariate(1 / mean_life_s)
        flows = [_flow(reader, far_writer, ends), _flow(far_reader, writer, ends)]
        tasks = [asyncio.ensure_future(flow) for flow in flows]
        finished, others = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if any(task.result() for task in finished):
            with count.open("ab") as file:
                file.write(b".")
        for task in others:
            task.cancel()
        _reset(writer)
        far_writer.transport.abort()

    async def run() -> None:
        server = await asyncio.start_server(pass_on, sock=listener)
        await server.serve_forever()

    asyncio.run(run())


async def _flow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, ends: float) -> bool:
    """Forward bytes until one side closes (False), or until the connection's life ends inside a chunk (True)."""
    with suppress(ConnectionError):
        while True:
            try:
                async with asyncio.timeout(max(0.0, ends - time.monotonic())):
                    chunk = await reader.read(_CHUNK)
            except TimeoutError:
                return True
            if not chunk:
                return False
            is_over = time.monotonic() >= ends
            writer.write(chunk[: len(chunk) // 2] if is_over else chunk)
            await writer.drain()
            if is_over:
                return True
    return False


def _reset(writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    writer.transport.abort()
