"""Connections to a model server, by aiohttp: its parser is in C, and all callers of the proxy share one event loop."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from agents.tls import tls_context

from .errors import UpstreamLost

if TYPE_CHECKING:
    import aiohttp

CONNECT_S: Final = 10.0
KEPT_S: Final = 2.0
"""How long an idle connection is kept: less than the 5 s after which uvicorn closes one, which would lose a call."""

_AT_ONCE: Final = 512


@dataclass
class Connections:
    """Connections to one server, opened at the first call because they belong to its event loop.

    `headers` go with every call. `seconds` is how long the server may be silent.
    """

    headers: Mapping[str, str]
    seconds: float
    _session: aiohttp.ClientSession | None = field(default=None, init=False)

    @asynccontextmanager
    async def post(
        self, url: str, body: Mapping[str, Any], headers: Mapping[str, str]
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """The answer to a call, of whatever status, whose body is not read yet. Raises UpstreamLost."""
        sent = json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
        with lost_connections(url):
            named = {**headers, "content-type": "application/json"}
            answer = await self._open_session().post(url, data=sent, headers=named, allow_redirects=False)
        try:
            yield answer
        finally:
            if answer.content.at_eof():
                answer.release()
            else:
                answer.close()

    async def aclose(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            import aiohttp  # noqa: PLC0415 half a second that only calls need

            self._session = aiohttp.ClientSession(
                headers=self.headers,
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S, sock_read=self.seconds),
                connector=aiohttp.TCPConnector(limit=_AT_ONCE, keepalive_timeout=KEPT_S, ssl=tls_context()),
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=False,
            )
        return self._session


@contextmanager
def lost_connections(url: str) -> Iterator[None]:
    """Name failures of a connection within the block: raises UpstreamLost."""
    import aiohttp  # noqa: PLC0415

    try:
        yield
    except (aiohttp.ClientError, TimeoutError) as problem:
        raise UpstreamLost(url=url, actual=f"{type(problem).__name__} {problem}".strip()) from problem
