"""Serve one site on two ports of one process: `python -m agents.envs.serve SITE --port 0 --admin-port 0`.

The admin token is the first line of standard input, so that no process list shows it. Once the ports are open, one
line of JSON on standard output names them; the process ends when standard input closes, unless `--stay` is given.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Final, NotRequired, TypedDict, Unpack

import uvicorn
from starlette.applications import Starlette

from eventlog.errors import FlywheelError

from .contract import SHORTEST_TOKEN
from .errors import SitePortInUse, UnknownSite, WeakToken
from .sites.conditions import CLEAR, Conditions, read_conditions
from .sites.known import KNOWN
from .sites.site import SiteKind

BACKLOG: Final = 512
KEEP_ALIVE_S: Final = 60
GRACE_S: Final = 2


@dataclass(frozen=True, slots=True)
class ServedSite:
    """A running site: its name, and the addresses of its pages and of its admin surface."""

    site: str
    url: str
    admin_url: str


class ServeOptions(TypedDict):
    """Options of serving a site, by name."""

    host: str
    port: int
    admin_port: int
    token: str
    announce: Callable[[ServedSite], None]
    stop: asyncio.Event
    public_url: NotRequired[str | None]
    conditions: NotRequired[Conditions]


class _Quiet(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield  # signals are handled once for both servers of the process


async def serve_site(name: str, **options: Unpack[ServeOptions]) -> None:
    """Serve a bundled site as `serve_kind` does. Raises UnknownSite too."""
    kind = KNOWN.get(name)
    if kind is None:
        raise UnknownSite(actual=name, expected=", ".join(sorted(KNOWN)))
    await serve_kind(kind, **options)


async def serve_kind(
    kind: SiteKind,
    *,
    host: str,
    port: int,
    admin_port: int,
    token: str,
    announce: Callable[[ServedSite], None],
    stop: asyncio.Event,
    public_url: str | None = None,
    conditions: Conditions = CLEAR,
) -> None:
    """Serve a site until `stop` is set; port 0 takes any free port, `announce` is called once both ports are open.

    `public_url` is the address of the pages as agents see it, if it differs from host and port. `conditions` make the
    pages slow or failing; the admin surface is not affected.
    Raises WeakToken, SitePortInUse.
    """
    if len(token) < SHORTEST_TOKEN:
        raise WeakToken(actual=len(token), expected=SHORTEST_TOKEN)
    with _listen(host, port) as page_socket, _listen(host, admin_port) as admin_socket:
        url = public_url or _url(host, page_socket)
        apps = kind.build(url, token, conditions)
        servers = (_server(apps.pages), _server(apps.admin))
        running = [
            asyncio.create_task(server.serve(sockets=[taken]))
            for server, taken in zip(servers, (page_socket, admin_socket), strict=True)
        ]
        while not all(server.started for server in servers):
            if any(task.done() for task in running):
                await asyncio.gather(*running)
            await asyncio.sleep(0.002)
        announce(ServedSite(kind.name, url, _url(host, admin_socket)))
        await stop.wait()
        for server in servers:
            server.should_exit = True
        await asyncio.gather(*running)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one site from the command line. Returns 0 if it was stopped, 1 if it could not start."""
    options = _options(arguments)
    token = sys.stdin.readline().strip()
    try:
        asyncio.run(_until_stopped(options, token))
    except FlywheelError as problem:
        facts = {key: value for key, value in problem.facts.items() if isinstance(value, str | int)}
        _say({"failed": type(problem).__name__, "facts": facts})
        sys.stderr.write(f"{problem}\n")
        return 1
    return 0


async def _until_stopped(options: argparse.Namespace, token: str) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for each in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(each, stop.set)
    if not options.stay:
        threading.Thread(target=_watch_parent, args=(loop, stop), daemon=True).start()
    await serve_site(
        options.site,
        host=options.host,
        port=options.port,
        admin_port=options.admin_port,
        token=token,
        announce=lambda ready: _say(asdict(ready)),
        stop=stop,
        public_url=options.public_url,
        conditions=options.conditions,
    )


def _watch_parent(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    while sys.stdin.readline():
        pass
    if not loop.is_closed():
        loop.call_soon_threadsafe(stop.set)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m agents.envs.serve", description=__doc__)
    parser.add_argument("site", help=f"one of: {', '.join(sorted(KNOWN))}")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="for the pages that agents see; 0 takes any free port")
    parser.add_argument("--admin-port", type=int, default=0, help="for the admin surface; 0 takes any free port")
    parser.add_argument("--public-url", help="address at which agents reach the pages, behind a proxy")
    parser.add_argument("--stay", action="store_true", help="keep serving after standard input closes")
    parser.add_argument("--latency-ms", metavar="A-B", help="delay each page by A to B ms, drawn by seed")
    parser.add_argument(
        "--failure-rate", type=float, metavar="P", help="answer this share of page requests with 503, from 0 to 1"
    )
    options = parser.parse_args(arguments)
    try:
        options.conditions = read_conditions(options.latency_ms, options.failure_rate)
    except ValueError as problem:
        parser.error(str(problem))
    return options


@contextmanager
def _listen(host: str, port: int) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sets TCP_NODELAY only on sockets created with IPPROTO_TCP; without it, small answers wait 40 ms.
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            taken.bind((host, port))
            taken.listen(BACKLOG)
        except (OSError, OverflowError) as problem:
            raise SitePortInUse(host=host, port=port, actual=str(problem)) from problem
        yield taken


def _server(app: Starlette) -> uvicorn.Server:
    return _Quiet(
        uvicorn.Config(
            app,
            access_log=False,
            date_header=False,
            forwarded_allow_ips="127.0.0.1",
            lifespan="off",
            log_level="warning",
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=GRACE_S,
            timeout_keep_alive=KEEP_ALIVE_S,
            workers=1,
            ws="none",
        )
    )


def _url(host: str, taken: socket.socket) -> str:
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{taken.getsockname()[1]}"


def _say(facts: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
