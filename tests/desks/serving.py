"""Small sites on ports of this process, for what visits them over HTTP."""

from __future__ import annotations

import asyncio
import queue
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from agents.envs.provider import Site
from agents.envs.serve import ServedSite, serve_kind

from .grammar import DeskKind
from .site import desk_site


@contextmanager
def serve_desk(desk: DeskKind) -> Iterator[Site]:
    """Serve a small site in a thread until the block ends."""
    token, ready = secrets.token_hex(16), queue.Queue[tuple[ServedSite, asyncio.Event, asyncio.AbstractEventLoop]]()

    async def serve() -> None:
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        await serve_kind(
            desk_site(desk),
            host="127.0.0.1",
            port=0,
            admin_port=0,
            token=token,
            announce=lambda served: ready.put((served, stop, loop)),
            stop=stop,
        )

    thread = threading.Thread(target=lambda: asyncio.run(serve()), name=f"desk {desk.words.site}", daemon=True)
    thread.start()
    served, stop, loop = ready.get(timeout=20)
    try:
        yield Site(served.site, served.url, served.admin_url, token)
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
