"""Requests to the server: the token, retries, and errors as exceptions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import httpx2

TRIES: Final = 6
FIRST_WAIT_S: Final = 0.2
LONGEST_WAIT_S: Final = 10.0
BUSY: Final = frozenset({429, 503})
"""Statuses after which the same request is sent again: every request of this client may be repeated."""


class ApiError(Exception):
    """The server refused a request. `kind` is the name of the error, `facts` what it says to a program."""

    def __init__(self, status: int, kind: str, message: str, facts: Mapping[str, Any]) -> None:
        super().__init__(f"{message} ({kind}, HTTP {status})")
        self.status = status
        self.kind = kind
        self.message = message
        self.facts = dict(facts)


class Unreachable(Exception):
    """No answer came from the server, however often it was asked."""


class Connection:
    """A server and a token. Thread-safe. Requests that may succeed later are sent again, at most TRIES times."""

    def __init__(
        self,
        url: str,
        token: str,
        *,
        timeout: float = 30.0,
        transport: httpx2.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        headers = {"Authorization": f"Bearer {token}"}
        self.url = url.rstrip("/")
        self._http = httpx2.Client(base_url=self.url, headers=headers, timeout=timeout, transport=transport)
        self._sleep = sleep

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def get(self, path: str, **params: Any) -> dict[str, Any]:
        """The JSON answer of a read. Parameters that are None are left out. Raises ApiError, Unreachable."""
        return self._object("GET", path, params=_query_of(params))

    def post(
        self, path: str, body: Mapping[str, Any] | None = None, *, key: str | None = None, **parts: Any
    ) -> dict[str, Any]:
        """The JSON answer of a write; `key` makes it idempotent on the server. Raises ApiError, Unreachable."""
        headers = {**parts.pop("headers", {}), **({} if key is None else {"Idempotency-Key": key})}
        if body is not None:
            parts["json"] = body
        return self._object("POST", path, headers=headers, **parts)

    @contextmanager
    def stream(self, path: str, headers: Mapping[str, str], **params: Any) -> Iterator[httpx2.Response]:
        """An open answer whose body the caller reads. Raises ApiError, Unreachable."""
        request = self._http.build_request("GET", path, headers=dict(headers), params=_query_of(params))
        answer = self._send(request, stream=True)
        try:
            yield answer
        finally:
            answer.close()

    def _object(self, method: str, path: str, **parts: Any) -> dict[str, Any]:
        answer = self._send(self._http.build_request(method, path, **parts))
        found: dict[str, Any] = answer.json()
        return found

    def _send(self, request: httpx2.Request, *, stream: bool = False) -> httpx2.Response:
        for attempt in range(TRIES):
            is_last = attempt == TRIES - 1
            try:
                answer = self._http.send(request, stream=stream)
            except httpx2.TransportError as error:
                if is_last:
                    raise Unreachable(
                        f"{self.url} does not answer: {error}. Does `flywheel serve` run there?"
                    ) from error
                self._sleep(_wait_of(attempt, None))
                continue
            if answer.status_code in BUSY and not is_last:
                answer.close()
                self._sleep(_wait_of(attempt, answer.headers.get("Retry-After")))
                continue
            if answer.is_success:
                return answer
            raise _error_of(answer)
        raise AssertionError("the last try returns or raises")


def _query_of(params: Mapping[str, Any]) -> dict[str, Any]:
    written = {name: str(value).lower() if isinstance(value, bool) else value for name, value in params.items()}
    return {name: value for name, value in written.items() if value is not None}


def _wait_of(attempt: int, retry_after: str | None) -> float:
    """Seconds to wait after a try: what the server says, else twice as long each time."""
    if retry_after is not None and retry_after.isdecimal():
        return min(float(retry_after), LONGEST_WAIT_S)
    return min(FIRST_WAIT_S * 2.0**attempt, LONGEST_WAIT_S)


def _error_of(answer: httpx2.Response) -> ApiError:
    answer.read()
    try:
        error = answer.json()["error"]
        return ApiError(answer.status_code, error["type"], error["message"], error["facts"])
    except (ValueError, LookupError, TypeError):
        return ApiError(answer.status_code, "HttpError", answer.text[:200] or answer.reason_phrase, {})
