"""JSON requests over HTTP: transient failures are retried, each failure has its error, no message shows the key."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import httpx2
from pydantic import BaseModel, ConfigDict, SecretStr, ValidationError

from eventlog.errors import first_fault

from ..tls import tls_context
from .errors import (
    AnswerBroken,
    BadEndpoint,
    ModelFailure,
    ModelOverloaded,
    ModelRefused,
    ModelUnknown,
    ModelUnreachable,
    RequestRejected,
)

LONGEST_SAID: Final = 300
SHOWN_KEY: Final = "[key]"


class EndpointAnswer(BaseModel):
    """Part of an endpoint's answer. Unknown fields are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)


A = TypeVar("A", bound=EndpointAnswer)


@dataclass(frozen=True, slots=True)
class Patience:
    """Timeout and retries. Waits double from `first_wait_s`; a Retry-After above `longest_wait_s` ends the retries."""

    timeout_s: float = 60.0
    tries: int = 4
    first_wait_s: float = 0.5
    longest_wait_s: float = 30.0


class _Again(Exception):
    """A transient failure. `wait_s` is the wait that the server named, if any."""

    def __init__(self, failure: ModelFailure, wait_s: float | None) -> None:
        self.failure = failure
        self.wait_s = wait_s
        super().__init__(str(failure))


class Endpoint:
    """A model server's address with its pool of connections. Thread-safe.

    `secret` is sent in `secret_header`, after `secret_prefix`. Redirects are not followed, so no other host gets the
    key. Proxy settings of the environment are not read. Raises BadEndpoint.
    """

    def __init__(
        self,
        base_url: str,
        secret: SecretStr | None,
        *,
        secret_header: str,
        secret_prefix: str = "",
        headers: Mapping[str, str] | None = None,
        patience: Patience | None = None,
        pause: Callable[[float], None] = time.sleep,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.url = _check_base_url(base_url)
        self.patience = patience or Patience()
        self._secret = "" if secret is None else secret.get_secret_value()
        if not (self._secret.isascii() and self._secret.isprintable() and " " not in self._secret):
            raise BadEndpoint(url=self.url, actual="its key fits no header", expected="printable ASCII without spaces")
        own = {secret_header: f"{secret_prefix}{self._secret}"} if self._secret else {}
        self._pool = httpx2.Client(
            headers={**(headers or {}), **own},
            timeout=self.patience.timeout_s,
            trust_env=False,
            verify=tls_context(),
            follow_redirects=False,
        )
        self._pause = pause
        self._now = now

    def close(self) -> None:
        """Close the pool of connections."""
        self._pool.close()

    def post(self, path: str, body: Mapping[str, Any], shape: type[A]) -> A:
        """Post a JSON body and parse the answer as `shape`. Raises a subclass of ModelFailure."""
        return self._read(shape, self._send_with_retries(path, body))

    def get(self, path: str, shape: type[A]) -> A:
        """Get what lies at a path and parse it as `shape`. Raises a subclass of ModelFailure."""
        return self._read(shape, self._send_with_retries(path, None))

    def tell(self, path: str, body: Mapping[str, Any]) -> None:
        """Post a JSON body and ignore the text of the answer. Raises a subclass of ModelFailure."""
        self._send_with_retries(path, body)

    def _send_with_retries(self, path: str, body: Mapping[str, Any] | None) -> httpx2.Response:
        tries, wait_s = 1, self.patience.first_wait_s
        while True:
            try:
                return self._once(path, body, tries)
            except _Again as again:
                due_s = wait_s if again.wait_s is None else again.wait_s
                if tries >= self.patience.tries or due_s > self.patience.longest_wait_s:
                    raise again.failure from again
            self._pause(due_s)
            tries, wait_s = tries + 1, min(2 * wait_s, self.patience.longest_wait_s)

    def answer_error(self, actual: str, expected: str) -> AnswerBroken:
        """The error for an answer that cannot be used."""
        return AnswerBroken(url=self.url, actual=self._without_key(actual), expected=expected)

    def _once(self, path: str, body: Mapping[str, Any] | None, tries: int) -> httpx2.Response:
        try:
            answer = self._pool.request("GET" if body is None else "POST", f"{self.url}/{path}", json=body)
        except httpx2.TransportError as problem:
            actual = f"{type(problem).__name__} {problem}".strip()
            timeout_s = self.patience.timeout_s
            failure = ModelUnreachable(url=self.url, actual=actual, tries=tries, timeout_s=timeout_s)
            raise _Again(failure, None) from problem
        except httpx2.HTTPError as problem:
            raise self.answer_error(f"{type(problem).__name__} {problem}".strip(), "a valid HTTP response") from problem
        if not answer.is_success:
            self._raise_named(answer, tries)
        return answer

    def _raise_named(self, answer: httpx2.Response, tries: int) -> None:
        status, said = answer.status_code, self._error_text(answer)
        if status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
            raise ModelRefused(url=self.url, actual=status, said=said)
        if status == HTTPStatus.NOT_FOUND:
            raise ModelUnknown(url=self.url, said=said)
        if status == HTTPStatus.TOO_MANY_REQUESTS or answer.is_server_error:
            wait_s = retry_after(answer.headers.get("retry-after"), self._now())
            named = "no" if wait_s is None else f"{wait_s:g}"
            failure = ModelOverloaded(url=self.url, actual=status, tries=tries, said=said, retry_after_s=named)
            raise _Again(failure, wait_s)
        if answer.is_redirect:
            raise self.answer_error(f"it redirects to {answer.headers.get('location')}", "an answer without redirect")
        raise RequestRejected(url=self.url, actual=status, said=said)

    def _read(self, shape: type[A], answer: httpx2.Response) -> A:
        try:
            return shape.model_validate_json(answer.content)
        except ValidationError as problem:
            if problem.errors(include_input=False)[0]["type"] == "json_invalid":
                raise self.answer_error(self._error_text(answer), "JSON") from problem
            raise self.answer_error(first_fault(problem), "the documented shape") from problem

    def _error_text(self, answer: httpx2.Response) -> str:
        """The server's error message, else the text of its answer; shortened and without the key."""
        try:
            facts = json.loads(answer.content)
        except (ValueError, RecursionError):
            facts = None
        error = facts.get("error", facts) if isinstance(facts, dict) else None
        message = error.get("message") if isinstance(error, dict) else error
        said = message if isinstance(message, str) else answer.text
        return repr(self._without_key(said)[:LONGEST_SAID])

    def _without_key(self, text: str) -> str:
        return text.replace(self._secret, SHOWN_KEY) if self._secret else text


def retry_after(header: str | None, now: float) -> float | None:
    """Seconds to wait by a Retry-After header, which holds a number or a date; None if it holds neither."""
    if header is None:
        return None
    text = header.strip()
    if text.isascii() and text.replace(".", "", 1).isdigit():
        return float(text)
    try:
        due = parsedate_to_datetime(text)
    except ValueError:
        return None
    aware = due if due.tzinfo is not None else due.replace(tzinfo=UTC)
    return max(0.0, (aware - datetime.fromtimestamp(now, UTC)).total_seconds())


def _check_base_url(base_url: str) -> str:
    expected = "http:// or https:// with a host, without query, fragment or user"
    try:
        parts = urlsplit(base_url)
        is_sound = parts.scheme in {"http", "https"} and bool(parts.hostname) and not (parts.query or parts.fragment)
        has_user = "@" in parts.netloc
    except ValueError as problem:
        raise BadEndpoint(url=base_url, actual=str(problem), expected=expected) from problem
    if has_user:
        raise BadEndpoint(url=parts.hostname, actual="it contains a user or a password", expected=expected)
    if not is_sound:
        raise BadEndpoint(url=base_url, actual="it is not of that form", expected=expected)
    return base_url.rstrip("/")
