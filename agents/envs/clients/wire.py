"""HTTP calls to an admin surface over one connection pool: retries, and the error for each kind of failure."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Mapping
from http import HTTPStatus
from typing import Final, TypeVar

import httpx2
from pydantic import ValidationError

from eventlog.errors import first_fault

from ...tls import tls_context
from ..contract import ADMIN_HEADER, Answer
from ..errors import ContractBroken, EnvironmentDown, EnvironmentRefused, LoginPage

A = TypeVar("A", bound=Answer)
Facts = dict[str, object]
Body = Mapping[str, int | float | str]
UNAVAILABLE: Final = frozenset(
    {
        HTTPStatus.TOO_MANY_REQUESTS,
        HTTPStatus.BAD_GATEWAY,
        HTTPStatus.SERVICE_UNAVAILABLE,
        HTTPStatus.GATEWAY_TIMEOUT,
    }
)
"""Statuses by which a site or its proxy says that it did not process a request, to pages or to the admin surface."""

REFUSED: Final = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
CONNECT_TRIES: Final = 4
FIRST_WAIT_S: Final = 0.05
# Shorter than the idle timeout of any site, so that no request uses a connection that is being closed.
IDLE_S: Final = 4.0
LONGEST_SHOWN: Final = 200


class Wire:
    """Connection pool to one site; threads may share it.

    `admin_header` carries the token if there is one, `extra_headers` are sent with every call. Raises
    EnvironmentRefused if a header cannot be sent.
    """

    def __init__(
        self,
        url: str,
        admin_token: str | None,
        *,
        admin_header: str = ADMIN_HEADER,
        timeout_s: float = 10.0,
        extra_headers: Mapping[str, str] | None = None,
        transport: httpx2.BaseTransport | None = None,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self.url = url.rstrip("/")
        self._timeout_s = timeout_s
        self._pause = pause
        token = {} if admin_token is None else {admin_header: admin_token}
        try:
            self._pool = httpx2.Client(
                headers={**(extra_headers or {}), **token},
                timeout=timeout_s,
                limits=httpx2.Limits(max_connections=64, max_keepalive_connections=64, keepalive_expiry=IDLE_S),
                transport=transport,
                trust_env=False,
                verify=tls_context(),
            )
        except ValueError as problem:
            raise EnvironmentRefused(
                url=self.url, operation="the headers", actual=f"none ({type(problem).__name__} in a header)"
            ) from problem

    def close(self) -> None:
        """Close the pool of connections."""
        self._pool.close()

    def ask(
        self,
        method: str,
        path: str,
        operation: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Body | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx2.Response:
        """Send one call; errors name it by `operation`. Raises EnvironmentDown if no answer comes."""
        try:
            request = self._pool.build_request(
                method, f"{self.url}{path}", params=query, json=body, headers=dict(headers or {})
            )
            return self._send(request)
        except (httpx2.HTTPError, httpx2.InvalidURL, UnicodeError) as problem:
            raise self.down(operation, f"{type(problem).__name__} {problem}".strip()) from problem

    def _send(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request; retry after a pause if no connection was made, because the site then saw nothing of it."""
        wait_s = FIRST_WAIT_S
        for _ in range(CONNECT_TRIES - 1):
            try:
                return self._pool.send(request)
            except (httpx2.ConnectError, httpx2.ConnectTimeout):
                self._pause(wait_s)
                wait_s *= 2
        return self._pool.send(request)

    def check_open(self, operation: str, answer: httpx2.Response, *, refused: Collection[int] = REFUSED) -> None:
        """Raise LoginPage, EnvironmentRefused or EnvironmentDown for a login page, a refusal or an outage."""
        status = answer.status_code
        if _is_html(answer) and (status < HTTPStatus.BAD_REQUEST or status in refused):
            raise LoginPage(
                url=self.url, operation=operation, actual=f"status {status}{_way(answer)} and a page of HTML"
            )
        if status in refused:
            raise EnvironmentRefused(url=self.url, operation=operation, actual=status)
        if status in UNAVAILABLE or answer.is_server_error:
            raise self.down(operation, f"status {status}, {shown_text(answer)}")

    def check_ok(self, operation: str, answer: httpx2.Response) -> None:
        """Raise ContractBroken for every status but 200."""
        if answer.status_code != HTTPStatus.OK:
            actual = f"status {answer.status_code}{_way(answer)}, {shown_text(answer)}"
            raise self.contract_error(operation, actual, "status 200")

    def facts(self, operation: str, answer: httpx2.Response) -> Facts:
        """Parse an answer as a JSON object. Raises ContractBroken."""
        try:
            facts = json.loads(answer.content)
        except (ValueError, RecursionError) as problem:
            raise self.contract_error(operation, shown_text(answer), "JSON") from problem
        if not isinstance(facts, dict):
            raise self.contract_error(operation, shown_text(answer), "an object in JSON")
        return facts

    def read(self, shape: type[A], operation: str, facts: object) -> A:
        """Validate facts as a model. Raises ContractBroken."""
        try:
            return shape.model_validate(facts)
        except ValidationError as problem:
            fault = first_fault(problem, shape.__name__)
            raise self.contract_error(operation, fault, f"the shape of {shape.__name__}") from problem

    def down(self, operation: str, actual: str) -> EnvironmentDown:
        """Error for a site that does not answer."""
        return EnvironmentDown(url=self.url, operation=operation, actual=actual, timeout_s=self._timeout_s)

    def contract_error(self, operation: str, actual: str, expected: str) -> ContractBroken:
        """Error for an answer that breaks the contract."""
        return ContractBroken(url=self.url, operation=operation, actual=actual, expected=expected)


def shown_text(answer: httpx2.Response) -> str:
    """Beginning of an answer's text, for errors."""
    return repr(answer.text[:LONGEST_SHOWN])


def _way(answer: httpx2.Response) -> str:
    return f" to {answer.headers.get('location')}" if answer.is_redirect else ""


def _is_html(answer: httpx2.Response) -> bool:
    return str(answer.headers.get("content-type", "")).partition(";")[0].strip().lower() == "text/html"
